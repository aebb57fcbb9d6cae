"""What `portable.crosscompile` asks of this backend: its kernels as sources, built by NVRTC.

Resources are read from the machine code with `cuobjdump`, which comes with a CUDA toolkit or with
the `triton` package. No GPU is needed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portable.backend import Config, Missing
from portable.backends.cuda import _resources
from portable.dtypes import DTYPES
from portable.op import Problem

if TYPE_CHECKING:
    from portable.backends.cuda._build import KernelVariant

INSTALL = "pip install cuda-core cuda-bindings nvidia-cuda-nvrtc triton"
OLDEST = 75
FEATURES = {90: "a", 100: "a", 103: "a"}
"""Targets whose matrix instructions (wgmma, tcgen05) exist only in the architecture's own set."""
RESERVED = 1024
"""Shared memory the system keeps of every block [B].

From sm_90 on cuobjdump counts it in, for kernels that use shared memory of their own.
"""
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


def reserved(architecture: str) -> int:
    """What cuobjdump's figure holds of the system's [B], unless that figure is 0."""
    return RESERVED if _capability(architecture) >= 90 else 0


def variants(architecture: str) -> list[dict[str, Any]]:
    """Every kernel of the backend in its default configs for the target."""
    from portable.backends.cuda import backend

    return [
        {
            "op": variant.op,
            "label": variant.note,
            "factor": _factor(variant, variant.note.partition(" ")[0]),
            **_described(variant, architecture),
        }
        for variant in backend.kernels(own_name(architecture))
    ]


def _described(variant: KernelVariant, architecture: str) -> dict[str, Any]:
    text = variant.source + ("\n" if reserved(architecture) else "")  # older builds counted it
    return {
        "kernel": variant.kernel,
        "config": dict(variant.macros),
        "source_hash": hashlib.sha256(text.encode()).hexdigest()[:32],
        "source": {
            "text": variant.source, "name": variant.kernel, "constants": {}, "kinds": {},
            "options": {"threads": variant.block, "shared": variant.shared},
        },
    }  # fmt: skip


def _factor(variant: KernelVariant, dtype: str) -> str:
    """The dtype a product is to be made in, for kernels that are written for the matrix unit.

    Their `_simt` twins run where it cannot be used; those are not to be judged for it.
    """
    matrix = variant.kernel.endswith("_mma") or variant.file.endswith("_mma.cu")
    return dtype if matrix and dtype in DTYPES else ""


def configs(op: str, problem: Problem, architecture: str, units: int) -> Sequence[Config] | str:
    """The configs the backend would try on that target, or why it refuses the problem."""
    from portable.backends.cuda import _launches, backend

    implementation = backend.implementation(op)
    if implementation is None:
        return f"cuda has no {op}"
    device = _launches.device(own_name(architecture), units)
    reasons = implementation.why_not(problem, device)
    return "; ".join(reasons) if reasons else list(implementation.configs(problem, device))


def describe(
    op: str, problem: Problem, architecture: str, units: int, config: Config
) -> list[dict[str, Any]]:
    """One entry per launch; its config is the macros, which with the source decide the code."""
    from portable.backends.cuda import _launches

    return [
        {
            **_described(variant, architecture),
            "grid": blocks,
            "factor": _factor(variant, problem.dtype),
            **_tile(problem, dict(variant.macros)),
        }
        for variant, blocks in _launches.launches(
            op, problem, own_name(architecture), units, config
        )
    ]


def _tile(problem: Problem, macros: Mapping[str, Any]) -> dict[str, Any]:
    """For products: the extents of one matrix of the result, and the block's part of it."""
    shape = problem.results[0].shape
    if not {"BM", "BN"} <= set(macros) or len(shape) < 2:
        return {}
    extent = shape[-2:]
    if problem.op == "linear":
        extent = (math.prod(shape[:-1]), shape[-1])
    elif problem.op == "conv2d":
        filters = shape[1] // int(problem.param("groups"))
        extent = (filters, shape[0] * shape[2] * shape[3])
    elif problem.op not in ("matmul", "quantized_matmul"):
        return {}
    return {"extent": extent, "tile": (macros["BM"], macros["BN"])}


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
        name: the kernel, see `named`; "" where there is one only.
        kinds: unused: C++ knows its types.
        constants: `#define`s put before the text.
        options: "threads" of a block and dynamic "shared" memory [B].
        architecture: "sm_90".
        text, path: the source, or where it is.

    Raises:
        CompileError: with the compiler's log.
        ValueError: no kernel of that name, or several.
    """
    from portable.backends.cuda._build import build_cubin

    body = text or Path(path).read_text(encoding="utf-8")
    defines = "".join(f"#define {key} {value}\n" for key, value in constants.items())
    if path:  # the compiler names the file and counts its lines
        defines += f'#line 1 "{Path(path).name}"\n'
    folders = [] if text else include_folders(Path(path))
    cubin = build_cubin(defines + body, own_name(architecture), include=folders)
    usage, code = (listing(cubin, option) for option in ("-res-usage", "-sass"))
    found = named(list(usage), name)
    log = usage[found]
    static = _static(log)
    kept = min(static, reserved(architecture))
    return {
        "kind": "cuobjdump",
        "assembly": code.get(found, ""),
        "log": log,
        "shared": int(options.get("shared", 0)) + static - kept,
        "reserved": kept,
        "threads": int(options.get("threads", DEFAULT_THREADS)),
        "binary_size": len(cubin),
        "binary": cubin,
    }


def include_folders(file: Path) -> list[str]:
    """Where a file's headers are looked for: beside it, in the CUDA toolkit, in `triton`."""
    from cuda import pathfinder

    found = [str(file.parent.resolve())]
    toolkit = pathfinder.find_nvidia_header_directory("cudart")
    if toolkit is not None:
        found.append(str(toolkit))
    triton = importlib.util.find_spec("triton")
    for root in (triton.submodule_search_locations or []) if triton else []:
        found.append(str(Path(root) / "backends" / "nvidia" / "include"))
    return found


def named(kernels: Sequence[str], name: str) -> str:
    """The kernel that is meant: by its name, its C++ name, or a part of the mangled one.

    Raises:
        ValueError: none or several; they are listed.
    """
    exact = [kernel for kernel in kernels if kernel == name]
    spelled = [kernel for kernel in kernels if name and f"{len(name)}{name}" in kernel]
    found = exact or spelled or [kernel for kernel in kernels if name in kernel]
    if len(found) == 1:
        return found[0]
    if not kernels:
        raise ValueError("the source has no __global__ kernel (a template needs an instantiation)")
    asked = f"no kernel {name!r}" if not found else f"{len(found)} kernels"
    asked += f" {name!r}" if found and name else ""
    raise ValueError(
        f"the source has {asked}; name one as FILE::KERNEL: {', '.join(found or kernels)}"
    )


def listing(cubin: bytes, option: str) -> dict[str, str]:
    """cuobjdump's text by kernel, for "-res-usage" or "-sass"."""
    pattern = _resources._FUNCTION if option == "-res-usage" else _resources._CODE
    names, texts = _resources._split(pattern, _resources._dump(cubin, option))
    return dict(zip(names, texts, strict=True))


def _static(usage: str) -> int:
    match = _resources._USAGE.search(usage)
    return int(match[3]) if match else 0


__all__: Sequence[str] = (
    "build_source", "configs", "describe", "variants", "versions", "why_missing",
    "why_not_target",
)  # fmt: skip
