"""Shapes and strides brought into the few forms the kernels take.

Kernels index at most two outer axes and one or two inner ones. Axes that lie behind each other in
memory are merged first; what still has more is copied to row-major (`Plan.dense`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from portable.op import Problem, TensorSpec, contiguous_strides

WIDE_AT = 2**31


def strides_of(spec: TensorSpec) -> tuple[int, ...]:
    """Strides in elements, row-major when the spec has none."""
    return contiguous_strides(spec.shape) if spec.strides is None else spec.strides


def span(spec: TensorSpec) -> int:
    """Largest offset of an element from the first [elements]."""
    pairs = zip(spec.shape, strides_of(spec), strict=True)
    return sum((n - 1) * abs(s) for n, s in pairs if n > 0)


def wide(problem: Problem) -> bool:
    """Whether any tensor needs 64-bit offsets (with room for a tile past its end)."""
    return any(span(s) + 2**24 >= WIDE_AT for s in (*problem.tensors, *problem.results))


def next_power_of_2(n: int) -> int:
    """Smallest power of two >= n (>= 1)."""
    return 1 << max(n - 1, 0).bit_length()


def cdiv(a: int, b: int) -> int:
    """Quotient rounded up."""
    return -(-a // b)


def collapse(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Merges neighbouring axes that are one axis in memory for every tensor.

    Axes of extent 1 vanish. Returns the new shape and the new strides per tensor.
    """
    new_shape: list[int] = []
    new_strides: list[list[int]] = [[] for _ in strides]
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        here = [s[axis] for s in strides]
        fits = bool(new_shape) and all(
            old[-1] == step * extent for old, step in zip(new_strides, here, strict=True)
        )
        if fits:
            new_shape[-1] *= extent
        else:
            new_shape.append(extent)
        for old, step in zip(new_strides, here, strict=True):
            if fits:
                old[-1] = step
            else:
                old.append(step)
    return new_shape, new_strides


def padded(values: Sequence[int], count: int, fill: int) -> list[int]:
    """`values` behind as many `fill` as make `count`."""
    return [fill] * (count - len(values)) + list(values)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows along one axis: offset of (row, i) = row//inner * s0 + row%inner * s1 + i * step.

    Attributes:
        rows: number of rows.
        n: length of a row.
        inner: extent of the inner outer axis.
        strides: (s0, s1, step) per tensor.
        dense: whether the tensors must be made row-major first.
    """

    rows: int
    n: int
    inner: int
    strides: tuple[tuple[int, int, int], ...]
    dense: bool

    @property
    def across(self) -> bool:
        """Whether neighbouring rows, not neighbours in a row, are adjacent in memory."""
        s0, s1, step = self.strides[0]
        return self.n > 1 and step != 1 and (s1 if self.inner > 1 else s0) == 1


def rows_of(tensors: Sequence[TensorSpec], axis: int) -> Rows:
    """Rows of equally shaped tensors along one axis."""
    shape = tensors[0].shape
    keep = [i for i in range(len(shape)) if i != axis]
    for dense in (False, True):
        all_strides = [contiguous_strides(t.shape) if dense else strides_of(t) for t in tensors]
        outer, merged = collapse(
            [shape[i] for i in keep], [[s[i] for i in keep] for s in all_strides]
        )
        if len(outer) <= 2:
            break
    n = shape[axis] if shape else 1
    steps = [s[axis] if shape else 1 for s in all_strides]
    two = [[*m, 0, 0][:2] for m in merged]
    strides = tuple((a, b, c) for (a, b), c in zip(two, steps, strict=True))
    inner = outer[1] if len(outer) == 2 else 1
    return Rows(math.prod(shape[i] for i in keep), n, inner, strides, dense)
