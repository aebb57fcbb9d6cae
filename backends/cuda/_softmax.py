"""softmax and log_softmax: along the last axis by rows, along another one by columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.cuda import _rows
from portable.backends.cuda._build import C_TYPES
from portable.backends.cuda._plan import (
    THREADS,
    blocks,
    dense,
    rows_of,
    target,
    vector,
    why_not_dtype,
    why_not_layout,
)
from portable.backends.cuda._runtime import Runtime
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Other dtypes."""
    return why_not_dtype(problem, dtypes.FLOATS) + why_not_layout(problem)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Threads of a row; nothing to tune along another axis than the last."""
    axis, shape = int(problem.param("axis")), problem.tensors[0].shape
    if rows_of(shape, axis)[2] != 1:
        return [{}]
    return _rows.configs(shape[axis], problem.dtype, target(device))


def build(
    problem: Problem, config: Config, runtime: Runtime, aligned: bool, *, log: bool
) -> Kernel:
    """The host side of both ops."""
    result = problem.results[0]
    if result.size == 0:
        return lambda x: runtime.empty(result.shape, result.dtype)
    macros: dict[str, int | str] = {"T": C_TYPES[problem.dtype], "LOG": int(log)}
    axis = int(problem.param("axis"))
    outer, length, inner = rows_of(problem.tensors[0].shape, axis)
    if inner == 1 and config:
        return _by_rows(problem, config, runtime, aligned, macros, axis)
    launch = runtime.kernel("_softmax.cu", "softmax_columns", macros, THREADS)
    pack = dense(runtime, problem.tensors[0])

    def kernel(x: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        columns = outer * inner
        launch((blocks(columns), 1, 1), out, pack(x), columns, length, inner)
        return out

    return kernel


def _by_rows(
    problem: Problem,
    config: Config,
    runtime: Runtime,
    aligned: bool,
    macros: dict[str, int | str],
    axis: int,
) -> Kernel:
    spec, result = problem.tensors[0], problem.results[0]
    # Axes of one after the softmax axis are dropped: it is the last.
    trimmed = type(spec)(
        spec.shape[: axis + 1], spec.dtype, spec.strides and spec.strides[: axis + 1]
    )
    seen = _rows.rows(trimmed)
    vec = vector(problem.dtype, seen.length, seen.stride, aligned=aligned)
    macros = macros | _rows.macros(seen.length, problem.dtype, config, vec)
    group, rows = int(config["group"]), int(config["rows"])
    launch = runtime.kernel("_softmax.cu", "softmax_rows", macros, group * rows)
    pack = dense(runtime, spec) if seen.spec != trimmed else None
    grid = (-(-seen.count // rows), 1, 1)

    def kernel(x: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        launch(grid, out, pack(x) if pack else x, seen.count, seen.length, seen.stride)
        return out

    return kernel
