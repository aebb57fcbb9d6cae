"""sum, max, mean and argmax: along the last axes by rows, along others by columns.

Few and long rows are split over several blocks; a second launch puts the parts together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.cuda import _rows
from portable.backends.cuda._build import C_TYPES
from portable.backends.cuda._plan import (
    THREADS,
    Step,
    blocks,
    copier,
    dense,
    strides,
    target,
    vector,
    why_not_dtype,
    why_not_layout,
)
from portable.backends.cuda._runtime import Launch, Runtime
from portable.device import Device
from portable.op import Problem, TensorSpec

SUM, MAX, MEAN, ARGMAX = 0, 1, 2, 3
_DTYPES = (*dtypes.FLOATS, *dtypes.INTEGERS, "bool")
_SPLIT = 8192  # elements that are worth a block of their own


def why_not(problem: Problem, device: Device) -> list[str]:
    """Other dtypes."""
    return why_not_dtype(problem, _DTYPES) + why_not_layout(problem)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Threads of a row; nothing to tune over other axes than the last."""
    _, _, length, inner = _shape(problem)
    if inner != 1:
        return [{}]
    return _rows.configs(length, problem.dtype, target(device))


def build(problem: Problem, config: Config, runtime: Runtime, aligned: bool, kind: int) -> Kernel:
    """The host side of the four ops."""
    result = problem.results[0]
    count = result.size
    if count == 0:
        return lambda x: runtime.empty(result.shape, result.dtype)
    order, outer, length, inner = _shape(problem)
    accumulator = _accumulator(problem.dtype, result.dtype, kind)
    macros: dict[str, int | str] = {
        "T": C_TYPES[problem.dtype], "R": C_TYPES[result.dtype], "A": C_TYPES[accumulator],
        "KIND": kind,
    }  # fmt: skip
    splits = _splits(count, length, runtime)
    finish = None
    if splits > 1:
        macros["PARTIAL"] = 1
        finish = runtime.kernel("_reduce.cu", "reduce_finish", macros, THREADS)
    else:
        macros["PARTIAL"] = 0
    pack = _pack(runtime, problem, order)
    if inner == 1:
        vec = vector(problem.dtype, length, aligned=aligned)
        group, rows = int(config.get("group", 128)), int(config.get("rows", 1))
        if splits > 1:
            group, rows = 256, 1
        sizes = (outer, length, length)
        macros = macros | {"GROUP": group, "ROWS": rows, "VEC": vec}
        launch = runtime.kernel("_reduce.cu", "reduce_rows", macros, group * rows)
        grid = (-(-outer // rows), splits, 1)
    else:
        sizes = (outer * inner, length, inner)
        launch = runtime.kernel("_reduce.cu", "reduce_columns", macros, THREADS)
        grid = (blocks(outer * inner, 32), splits, 1)
    return _kernel(runtime, result, pack, launch, grid, sizes, finish, splits, accumulator)


def _kernel(
    runtime: Runtime,
    result: TensorSpec,
    pack: Step,
    launch: Launch,
    grid: tuple[int, int, int],
    sizes: tuple[int, int, int],
    finish: Launch | None,
    splits: int,
    accumulator: str,
) -> Kernel:
    count, length = result.size, sizes[1]

    def kernel(x: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        values = indices = out
        if finish:
            values = runtime.empty((splits, count), accumulator)
            indices = runtime.empty((splits, count), "int64")
        launch(grid, out, values, indices, pack(x), *sizes)
        if finish:
            finish((blocks(count), 1, 1), out, values, indices, count, splits, length)
        return out

    return kernel


def _accumulator(dtype: str, result: str, kind: int) -> str:
    if dtypes.is_float(dtype):
        return dtypes.accumulator(dtype)
    if kind == MEAN:
        return "float64"
    return "uint64" if dtype == "uint64" or (kind == SUM and result == "uint64") else "int64"


def _splits(count: int, length: int, runtime: Runtime) -> int:
    """Blocks per result when there are too few results to fill the device."""
    return max(1, min(2 * runtime.target.parallel // count, length // _SPLIT, 1024))


def _shape(problem: Problem) -> tuple[tuple[int, ...] | None, int, int, int]:
    """Axis order to pack in (None: as it is), and (outer, length, inner) of the dense tensor."""
    shape = problem.tensors[0].shape
    axis = problem.param("axis")
    over = tuple(range(len(shape))) if axis is None else axis
    over = (over,) if isinstance(over, int) else over
    real = [i for i in over if shape[i] != 1]
    first, last = (min(real), max(real)) if real else (len(shape), len(shape) - 1)
    between = [i for i in range(first, last) if i not in over and shape[i] != 1]
    length = math.prod(shape[i] for i in over)
    if between:  # the kept axes first, the reduced ones last
        order = tuple(i for i in range(len(shape)) if i not in over) + tuple(over)
        return order, math.prod(shape) // max(length, 1), length, 1
    outer, inner = math.prod(shape[:first]), math.prod(shape[last + 1 :])
    return None, outer, length, inner


def _pack(runtime: Runtime, problem: Problem, order: tuple[int, ...] | None) -> Step:
    spec = problem.tensors[0]
    if order is None:
        return dense(runtime, spec)
    steps = strides(spec)
    turned = TensorSpec(
        tuple(spec.shape[i] for i in order), spec.dtype, tuple(steps[i] for i in order)
    )
    copy = copier(runtime, turned)

    def pack(array: Any) -> Any:
        out = runtime.empty(turned.shape, turned.dtype)
        copy(out, array)
        return out

    return pack
