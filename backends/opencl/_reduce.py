"""sum, mean and max: rows, columns, and long reductions in two launches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.opencl._launch import Array, constant
from portable.backends.opencl._plan import (
    Builder,
    add_copy,
    collapse,
    is_cpu,
    row_stride,
    strides_of,
    too_many_axes,
    why_not_float,
)
from portable.backends.opencl._softmax import configs
from portable.device import Device
from portable.op import Problem, contiguous_strides

SOURCES = ("_common.cl", "copy.cl", "reduce.cl")
__all__ = ["SOURCES", "compile_reduction", "configs", "why_not"]
_LONG = 1 << 14
"""Elements from which a reduction is worth cutting into parts."""


def why_not(problem: Problem, device: Device) -> list[str]:
    """Dtype and number of strided axes."""
    return why_not_float(problem, device) or too_many_axes(problem.tensors[0])


def parts_of(device: Device, results: int, n: int) -> int:
    """Into how many parts a reduction is cut so that every compute unit has work."""
    wanted = max(device.info.units, 1) * (1 if is_cpu(device) else 8)
    if results >= wanted or n < _LONG:
        return 1
    return max(1, min(n // (_LONG // 4), -(-2 * wanted // results)))


def _wide(device: Device, inner: int, vector: int) -> int:
    """Vectors of a row whose sums are kept: 16 KiB of them stay in the L1 cache of a CPU."""
    return min(256, 1 << max(0, (inner // vector).bit_length() - 1)) if is_cpu(device) else 1


def canonical(b: Builder, axes: tuple[int, ...]) -> tuple[Array, int, int, int, int]:
    """x as (outer, n, inner) with n to be reduced: array, those extents, and the row stride.

    Axes that do not fit the form are brought into it by a copy with the kept axes first.
    """
    spec = b.problem["x"]
    kinds = [i in axes for i, n in enumerate(spec.shape) if n != 1]
    shape = [n for n in spec.shape if n != 1]
    changes = [i for i in range(1, len(kinds)) if kinds[i] != kinds[i - 1]]
    n = math.prod(spec.shape[i] for i in axes)
    kept = spec.size // n
    if not any(kinds):
        return b.dense("x"), kept, 1, 1, 1
    first = kinds.index(True)
    last = len(kinds) - 1 - kinds[::-1].index(True)
    if (len(changes) <= 1 and kinds[-1]) or all(kinds):
        stride = row_stride(spec, spec.ndim - _first(spec.shape, axes))
        if stride is not None:
            return b.operand("x"), kept, n, 1, stride
        return b.dense("x"), kept, n, 1, n
    if all(kinds[first : last + 1]):
        outer, inner = math.prod(shape[:first]), math.prod(shape[last + 1 :])
        return b.dense("x"), outer, n, inner, n
    order = [i for i in range(spec.ndim) if i not in axes] + list(axes)
    strides = strides_of(spec)
    dense = contiguous_strides([spec.shape[i] for i in order])
    dims = collapse([(spec.shape[i], strides[i], d) for i, d in zip(order, dense, strict=True)])
    target = b.scratch(spec.nbytes)
    add_copy(b, b.operand("x"), target, dims, spec.itemsize)
    return target, kept, n, 1, n


def _first(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    return next(i for i in axes if shape[i] != 1)


def compile_reduction(
    problem: Problem, device: Device, config: Config, *, maximum: bool = False, mean: bool = False
) -> Kernel:
    """One launch, or two when few results are made of many elements."""
    x, axes = problem["x"], problem.param("axis")
    n = math.prod(x.shape[i] for i in axes)
    if problem.results[0].size == 0 or n == 0:
        empty = math.nan if mean else 0
        return constant(problem, [empty])
    b = Builder(problem, device, vector=int(config.get("vector", 0)) or None)
    array, outer, n, inner, stride = canonical(b, axes)
    if is_cpu(device) and inner > 1:  # runs of whole rows, which prefetchers follow
        blocks = -(-inner // (_wide(device, inner, b.vector) * b.vector))
        wanted = -(-4 * device.info.units // (outer * blocks))
        parts = max(1, min(n // 64, wanted))
    else:
        parts = parts_of(device, outer * (inner // (32 * b.vector) + 1), n)
    option = [f"-DOP={int(maximum)}"]
    factor = np.float64(1 / n if mean else 1)
    target, to, first = b.out(), [], factor
    if parts > 1:
        size = 8 if b.dtype == "float64" else 4
        target, to = b.scratch(outer * parts * inner * size), ["-DTO_A"]
        first = np.float64(1)
    if inner == 1:
        arguments: list[Any] = [array, target, outer, n, stride, parts, first]
        b.step("reduce_rows", "reduce.cl", outer * parts, arguments, [*option, *to])
    else:
        wide = _wide(device, inner, b.vector)
        option.append(f"-DWIDE={wide}")
        blocks = -(-inner // (wide * b.vector))
        tasks = -(-outer * parts * blocks // b.local)
        arguments = [array, target, outer, n, inner, parts, first]
        b.step("reduce_columns", "reduce.cl", tasks, arguments, [*option, *to])
    if parts > 1:
        name, last = ("reduce_rows", parts) if inner == 1 else ("reduce_columns", inner)
        arguments = [target, b.out(), outer, parts, last, 1, factor]
        b.step(name, "reduce.cl", outer, arguments, [*option, "-DFROM_A"])
    return b.build()
