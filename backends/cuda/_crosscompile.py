"""What `portable.crosscompile` asks of this backend: its kernels as sources, built by NVRTC.

Resources are read from the machine code with `cuobjdump`, which comes with a CUDA toolkit or with
the `triton` package. No GPU is needed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from portable.backend import Missing
from portable.backends.cuda import _resources
from portable.dtypes import DTYPES

INSTALL = "pip install cuda-core cuda-bindings nvidia-cuda-nvrtc triton"
OLDEST = 75
FEATURES = {90: "a", 100: "a", 103: "a"}
"""Targets whose matrix instructions (wgmma, tcgen05) exist only in the architecture's own set."""
DEFAULT_THREADS = 256
"""Block size assumed for a third-party kernel that names none."""


def why_missing() -> Missing | None:
    """NVRTC through cuda-core, and cuobjdump."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.core") is None:
        return Missing("cuda-core is not installed", INSTALL)
    if _resources.tool("cuobjdump") is None:
        return Missing("cuobjdump is not on the PATH", INSTALL)
    return None


def versions() -> Mapping[str, str]:
    """Versions of NVRTC and of what calls it."""
    found = {}
    for name in ("nvidia-cuda-nvrtc", "cuda-core"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def why_not_target(architecture: str) -> str:
    """NVRTC builds for NVIDIA; HIP sources build where hiprtc is, which needs ROCm."""
    if not architecture.startswith("sm_"):
        return "NVRTC builds for NVIDIA only"
    return "" if _capability(architecture) >= OLDEST else f"older than sm_{OLDEST}"


def _capability(architecture: str) -> int:
    return int(architecture.removeprefix("sm_").rstrip("af"))


def own_name(architecture: str) -> str:
    """ "sm_90a" for "sm_90": the name that switches on all instructions of the target."""
    capability = _capability(architecture)
    return f"sm_{capability}{FEATURES.get(capability, '')}"


def variants(architecture: str) -> list[dict[str, Any]]:
    """Every kernel of the backend in its default configs for the target."""
    from portable.backends.cuda import backend

    found = []
    for variant in backend.kernels(own_name(architecture)):
        macros = dict(variant.macros)
        source = {
            "text": variant.source, "name": variant.kernel, "constants": {}, "kinds": {},
            "options": {"threads": variant.block, "shared": variant.shared},
        }  # fmt: skip
        found.append(
            {
                "op": variant.op,
                "label": variant.note,
                "kernel": variant.kernel,
                "config": macros,
                "source_hash": hashlib.sha256(variant.source.encode()).hexdigest()[:32],
                "factor": _factor(variant.kernel, variant.note),
                "source": source,
            }
        )
    return found


def _factor(kernel: str, note: str) -> str:
    """The dtype a product is to be made in, for kernels that are written for the matrix unit.

    Their `_simt` twins run where it cannot be used; those are not to be judged for it.
    """
    dtype = note.partition(" ")[0]
    return dtype if kernel.endswith("_mma") and dtype in DTYPES else ""


def build_source(
    name: str,
    kinds: Mapping[str, str],
    constants: Mapping[str, Any],
    options: Mapping[str, Any],
    architecture: str,
    text: str = "",
    path: str = "",
) -> dict[str, Any]:
    """Compiles a CUDA C++ text or file; constants become macros.

    Args:
        name: the kernel; of several, the one whose (mangled) name contains it.
        kinds: unused: C++ knows its types.
        constants: `#define`s put before the text.
        options: "threads" of a block and dynamic "shared" memory [B].
        architecture: "sm_90".
        text, path: the source, or where it is.

    Raises:
        CompileError: with the compiler's log.
        ValueError: no kernel of that name.
    """
    from portable.backends.cuda._build import build_cubin

    body = text or Path(path).read_text(encoding="utf-8")
    defines = "".join(f"#define {key} {value}\n" for key, value in constants.items())
    cubin = build_cubin(defines + body, own_name(architecture))
    usage, code = (listing(cubin, option) for option in ("-res-usage", "-sass"))
    found = [kernel for kernel in usage if name in kernel] if text or name else list(usage)
    exact = [kernel for kernel in found if kernel == name] or found
    if not exact:
        raise ValueError(f"the source has no kernel {name!r}; it has {', '.join(usage) or 'none'}")
    log = usage[exact[0]]
    return {
        "kind": "cuobjdump",
        "assembly": code.get(exact[0], ""),
        "log": log,
        "shared": int(options.get("shared", 0)) + _static(log),
        "threads": int(options.get("threads", DEFAULT_THREADS)),
        "binary_size": len(cubin),
    }


def listing(cubin: bytes, option: str) -> dict[str, str]:
    """cuobjdump's text by kernel, for "-res-usage" or "-sass"."""
    pattern = _resources._FUNCTION if option == "-res-usage" else _resources._CODE
    names, texts = _resources._split(pattern, _resources._dump(cubin, option))
    return dict(zip(names, texts, strict=True))


def _static(usage: str) -> int:
    match = _resources._USAGE.search(usage)
    return int(match[3]) if match else 0


__all__: Sequence[str] = (
    "build_source", "variants", "versions", "why_missing", "why_not_target",
)  # fmt: skip
