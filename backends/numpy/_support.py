"""Silence, widening and blocks of rows: what NumPy's kernels share."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from portable import dtypes
from portable.backend import Kernel
from portable.op import Problem

Array = np.ndarray[Any, np.dtype[Any]]

BLOCK_BYTES = 1 << 20
"""Bytes of a block of rows: the temporaries of a row-wise kernel stay in the second-level cache."""


@functools.cache
def _silence() -> contextvars.Context | None:
    """A context in which NumPy's floating-point warnings are off; None where they are no context
    variable (NumPy 1)."""
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        return None
    context = contextvars.copy_context()
    context.run(np.seterr, all="ignore")
    return context


def quiet(function: Callable[..., Any]) -> Kernel:
    """The function without NumPy's warnings about NaN and infinity: here they are just values.

    `numpy.errstate` costs 0.7 µs a call, entering a prepared context a tenth of it. A context can
    be entered once at a time: a second thread takes the slow way.
    """
    context = _silence()
    if context is None:
        return _errstate(function)
    run, slow = context.run, _errstate(function)

    def kernel(*arrays: Any) -> Any:
        try:
            return run(function, *arrays)
        except RuntimeError:
            return slow(*arrays)

    return kernel


def _errstate(function: Callable[..., Any]) -> Kernel:
    def kernel(*arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arrays)

    return kernel


def result_dtype(problem: Problem, index: int = 0) -> np.dtype[Any]:
    """NumPy's dtype of a result."""
    return dtypes.numpy_dtype(problem.results[index].dtype)


def wide_dtype(problem: Problem) -> np.dtype[Any]:
    """NumPy's dtype in which the problem is computed: float32 for half types."""
    return np.dtype(dtypes.accumulator(problem.dtype))


def widen(x: Array, dtype: np.dtype[Any]) -> Array:
    """x in a dtype; x itself when it has it."""
    return x.astype(dtype, copy=False)


def store(target: Array, values: Array) -> None:
    """target[...] = values, rounded to the target's dtype; `values` is scratch afterwards.

    NumPy's cast to float16 takes 0.2 µs for each number that is rounded to a subnormal (it raises
    the underflow flag), 150 times as long as for others. Rounded beforehand the cast is exact:
    adding and subtracting 0.75, whose last place is 2^-24, rounds to float16's smallest step.
    """
    if target.dtype == np.float16 and values.dtype == np.float32:
        small = np.abs(values) < 2.0**-14
        if small.any():
            rounded = values + np.float32(0.75)
            rounded -= np.float32(0.75)
            np.copyto(values, rounded, where=small)
    target[...] = values


def along(x: Array, axis: int) -> Array:
    """x as (outer, n, inner) with `axis` in the middle; a copy only where strides need one."""
    shape = x.shape
    outer = int(np.prod(shape[:axis], dtype=np.int64))
    inner = int(np.prod(shape[axis + 1 :], dtype=np.int64))
    return x.reshape(outer, shape[axis], inner)


def blocks(shape: tuple[int, int, int], itemsize: int) -> Iterator[tuple[slice, slice]]:
    """Slices (outer, inner) that cut (outer, n, inner) into blocks of whole rows of BLOCK_BYTES."""
    outer, n, inner = shape
    row = max(n * itemsize, 1)
    columns = min(inner, max(BLOCK_BYTES // row, 64))
    rows = max(BLOCK_BYTES // (row * max(columns, 1)), 1)
    for i in range(0, outer, rows):
        for j in range(0, inner, max(columns, 1)):
            yield slice(i, i + rows), slice(j, j + columns)


def rowwise(problem: Problem, axis: int, body: Callable[[Array], Array | None]) -> Kernel:
    """A kernel that maps whole rows along an axis, a block at a time.

    `body` gets a block (rows, n, columns) of its own in the compute dtype, and either changes it in
    place or returns another array.
    """
    dtype, compute = result_dtype(problem), wide_dtype(problem)

    def kernel(x: Array) -> Array:
        y = np.empty(x.shape, dtype)
        if y.size == 0:
            return y
        source, target = along(x, axis), along(y, axis)
        for rows, columns in blocks(source.shape, compute.itemsize):
            block = source[rows, :, columns].astype(compute)
            out = body(block)
            store(target[rows, :, columns], block if out is None else out)
        return y

    return quiet(kernel)


def row_blocks(arrays: Sequence[Array], itemsize: int) -> Iterator[list[Array]]:
    """The same blocks of rows of several arrays (rows, ...), about BLOCK_BYTES of the first."""
    if not arrays:
        return
    first = arrays[0]
    step = max(BLOCK_BYTES // max(itemsize * (first.size // len(first)), 1), 1)
    for i in range(0, len(first), step):
        yield [a[i : i + step] for a in arrays]


def elementwise(problem: Problem, body: Callable[..., None]) -> Kernel:
    """A kernel that maps elements, a block at a time.

    `body` gets blocks (1-d, its own, compute dtype) of all operands and changes the first in place.
    """
    dtype, compute = result_dtype(problem), wide_dtype(problem)
    step = BLOCK_BYTES // compute.itemsize

    def kernel(*arrays: Array) -> Array:
        y = np.empty(arrays[0].shape, dtype)
        target, sources = y.reshape(-1), [a.reshape(-1) for a in arrays]
        for i in range(0, target.size, step):
            blocks = [a[i : i + step].astype(compute) for a in sources]
            body(*blocks)
            store(target[i : i + step], blocks[0])
        return y

    return quiet(kernel)


def normalized(problem: Problem, rows: Callable[[Array], None]) -> Kernel:
    """A norm over the last axis with optional weight and bias; `rows` changes (m, n) in place."""
    dtype, compute = result_dtype(problem), wide_dtype(problem)
    n = problem["x"].shape[-1]
    weight_at, bias_at = problem.position("weight"), problem.position("bias")

    def kernel(*arrays: Array) -> Array:
        x = arrays[0]
        y = np.empty(x.shape, dtype)
        if y.size == 0:
            return y
        weight = None if weight_at is None else arrays[weight_at].astype(compute)
        bias = None if bias_at is None else arrays[bias_at].astype(compute)
        both = [x.reshape(-1, n), y.reshape(-1, n)]
        for source, target in row_blocks(both, compute.itemsize):
            block = source.astype(compute)
            rows(block)
            if weight is not None:
                block *= weight
            if bias is not None:
                block += bias
            store(target, block)
        return y

    return quiet(kernel)


def reduction(problem: Problem, function: np.ufunc, divide_by: int | None = None) -> Kernel:
    """function.reduce over the problem's axes in the accumulator's dtype, rounded once."""
    dtype, axes, keepdims = result_dtype(problem), problem.param("axis"), problem.param("keepdims")
    compute = np.dtype(dtypes.accumulator(problem.results[0].dtype))

    def kernel(x: Array) -> Array:
        y = np.asarray(function.reduce(x, axis=axes, dtype=compute, keepdims=keepdims))
        if divide_by is not None:
            y = np.true_divide(y, divide_by)
        return np.asarray(y, dtype)

    return quiet(kernel)
