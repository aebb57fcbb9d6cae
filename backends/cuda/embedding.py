"""Rows of a table, gathered in 16-byte accesses; the table is read in place in any layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.cuda._build import C_TYPES
from portable.backends.cuda._plan import (
    THREADS,
    blocks,
    compile_with,
    dense,
    strides,
    vector,
    why_not_dtype,
    why_not_layout,
)
from portable.backends.cuda._runtime import Runtime
from portable.device import Device
from portable.op import Problem

SOURCES = ("_common.cuh", "embedding.cu", "transpose.cu")
_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


def why_not(problem: Problem, device: Device) -> list[str]:
    """Dtypes the kernels have no name for."""
    allowed = [*C_TYPES, "float8_e5m2"]
    return why_not_dtype(problem, allowed) + why_not_layout(problem)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build for a device."""
    return compile_with(build, problem, device, config)


def build(problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
    """The host side."""
    table, indices = problem["table"], problem["indices"]
    result = problem.results[0]
    if result.size == 0:
        return lambda *arrays: runtime.empty(result.shape, result.dtype)
    row_step, col_step = strides(table)
    n, d = table.shape
    vec = vector(table.dtype, d, row_step, aligned=aligned and col_step == 1)
    macros: dict[str, int | str] = {
        "T": _UNSIGNED[table.itemsize],
        "I": C_TYPES[indices.dtype],
        "VEC": vec,
    }
    launch = runtime.kernel("embedding.cu", "gather_rows", macros, THREADS)
    pack = dense(runtime, indices)
    total = result.size // vec

    def kernel(rows: Any, where: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        sizes = (total, n, d, row_step, col_step)
        launch((blocks(total), 1, 1), out, rows, pack(where), *sizes)
        return out

    return kernel
