"""Silence, widening and blocks of rows: what NumPy's kernels share."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Iterator
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
        for rows, columns in blocks(source.shape, compute.itemsize):  # type: ignore[arg-type]
            block = source[rows, :, columns].astype(compute)
            out = body(block)
            target[rows, :, columns] = block if out is None else out
        return y

    return quiet(kernel)
