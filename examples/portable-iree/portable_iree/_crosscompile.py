"""The same MLIR for AMD GPUs, without one: what `portable crosscompile --backend iree` asks."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from portable.backend import Config, Missing
from portable.op import Problem
from portable_iree import _mlir, backend

_HALF = ("matmul",)  # the op whose module has a float16 form


def why_missing() -> Missing | None:
    """IREE's compiler is all it needs."""
    return backend.why_missing()


def versions() -> Mapping[str, str]:
    """Of the compiler."""
    return backend.versions()


def why_not_target(architecture: str) -> str:
    """AMD GPUs only: IREE's CUDA target needs NVIDIA's libdevice."""
    return "" if architecture.startswith("gfx") else f"{architecture} is no AMD GPU (takes gfx...)"


def configs(op: str, problem: Problem, architecture: str, units: int) -> Sequence[Config] | str:
    """One config, or why the problem is refused."""
    if op not in backend.ops():
        return f"iree has no {op}"
    taken = [d for d in _MLIR_DTYPES if d != "float16" or op in _HALF]
    if problem.dtype not in taken:
        return f"dtype is {problem.dtype} (takes {', '.join(taken)})"
    return [{}]


_MLIR_DTYPES = tuple(_mlir.TYPES)


def describe(
    op: str, problem: Problem, architecture: str, units: int, config: Config
) -> list[dict[str, Any]]:
    """One module, whose launches IREE decides on: its grid is not known."""
    digest = hashlib.sha256(_text(op, problem).encode()).hexdigest()[:32]
    return [{"kernel": f"{op}.mlir", "grid": 0, "source_hash": digest}]


def build(
    op: str, problem: Problem, architecture: str, units: int, config: Config, index: int
) -> dict[str, Any]:
    """Assembly of all kernels of the module."""
    from portable_iree import _build

    assembly, size = _build.rocm_assembly(_text(op, problem), architecture)
    return {
        "kind": "amdgcn",
        "assembly": assembly,
        "log": "",
        "shared": _largest(assembly, "group_segment_fixed_size"),
        "threads": _largest(assembly, "max_flat_workgroup_size"),
        "binary_size": size,
    }


def _largest(assembly: str, field: str) -> int:
    """The largest value of a field in the kernels' metadata."""
    return max(map(int, re.findall(rf"\.{field}:\s+(\d+)", assembly)), default=0)


def _text(op: str, problem: Problem) -> str:
    text: str = importlib.import_module(f"portable_iree.{op}").text(problem)
    return text
