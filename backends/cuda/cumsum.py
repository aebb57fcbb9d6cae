"""Running sums; few and long rows are cut into segments that run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.cuda._build import C_TYPES
from portable.backends.cuda._plan import (
    THREADS,
    blocks,
    compile_with,
    dense,
    rows_of,
    why_not_dtype,
    why_not_layout,
)
from portable.backends.cuda._runtime import Runtime
from portable.device import Device
from portable.op import Problem

SOURCES = ("_common.cuh", "cumsum.cu", "transpose.cu")
_SEGMENT = 4096  # elements of a row that are worth a block of their own


def why_not(problem: Problem, device: Device) -> list[str]:
    """Other dtypes."""
    allowed = (*dtypes.FLOATS, *dtypes.INTEGERS)
    return why_not_dtype(problem, allowed) + why_not_layout(problem)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build for a device."""
    return compile_with(build, problem, device, config)


def build(problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
    """The host side."""
    result = problem.results[0]
    if result.size == 0:
        return lambda x: runtime.empty(result.shape, result.dtype)
    outer, length, inner = rows_of(result.shape, int(problem.param("axis")))
    dtype = problem.dtype
    sums = dtypes.accumulator(dtype) if dtypes.is_float(dtype) else "int64"
    macros: dict[str, int | str] = {"T": C_TYPES[dtype], "A": C_TYPES[sums]}
    pack = dense(runtime, problem.tensors[0])
    if inner > 1:
        columns = outer * inner
        scan = runtime.kernel("cumsum.cu", "scan_columns", macros, THREADS)

        def by_columns(x: Any) -> Any:
            out = runtime.empty(result.shape, result.dtype)
            scan((blocks(columns), 1, 1), out, pack(x), columns, length, inner)
            return out

        return by_columns

    segments = _segments(outer, length, runtime)
    size = -(-length // segments)
    segments = -(-length // size)
    rows = min(outer, 65535)
    scan = runtime.kernel("cumsum.cu", "scan_rows", macros, THREADS)
    if segments > 1:
        totals = runtime.kernel("cumsum.cu", "scan_totals", macros, THREADS)
        carry = runtime.kernel("cumsum.cu", "scan_rows", {**macros, "T": C_TYPES[sums]}, THREADS)

    def by_rows(x: Any) -> Any:
        out, read = runtime.empty(result.shape, result.dtype), pack(x)
        before = out
        if segments > 1:
            before = runtime.empty((outer, segments), sums)
            totals((segments, rows, 1), before, read, outer, length, size)
            # In place: a thread writes only what it has read itself.
            carry((1, rows, 1), before, before, before, outer, segments, segments)
        scan((segments, rows, 1), out, read, before, outer, length, size)
        return out

    return by_rows


def _segments(outer: int, length: int, runtime: Runtime) -> int:
    return max(1, min(2 * runtime.target.parallel // outer, length // _SEGMENT, 65535))
