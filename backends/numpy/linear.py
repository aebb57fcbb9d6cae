"""BLAS product and its epilogue; half types widened, rounded once at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.numpy._activations import ACTIVATIONS
from portable.backends.numpy._support import Array, quiet, result_dtype, store, wide_dtype
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Blocks of rows: the epilogue works on what the product left in the cache."""
    dtype, compute = result_dtype(problem), wide_dtype(problem)
    activation = ACTIVATIONS.get(problem.param("activation"))
    (k, n), shape = problem["w"].shape, problem.results[0].shape
    bias_at, residual_at = problem.position("bias"), problem.position("residual")

    def kernel(*arrays: Array) -> Array:
        y = np.empty(shape, dtype)
        if y.size == 0:
            return y
        target, x = y.reshape(-1, n), arrays[0].reshape(y.size // n, k)
        w = _forward(arrays[1]).astype(compute, copy=False)
        bias = None if bias_at is None else arrays[bias_at].astype(compute)
        residual = None if residual_at is None else arrays[residual_at].reshape(-1, n)
        for block in _row_blocks(len(x), n):
            part = np.matmul(_forward(x[block]).astype(compute, copy=False), w)
            if bias is not None:
                part += bias
            if activation is not None:
                activation(part)
            if residual is not None:
                part += residual[block]
            store(target[block], part)
        return y

    return quiet(kernel)


def _row_blocks(rows: int, n: int) -> Iterator[slice]:
    """Enough rows to keep BLAS busy, few enough for the last-level cache."""
    step = max((8 << 20) // (4 * n), 256)
    for i in range(0, rows, step):
        yield slice(i, i + step)


def _forward(x: Array) -> Array:
    """x without negative strides: BLAS takes none, and NumPy's own loop is many times slower."""
    return np.ascontiguousarray(x) if min(x.strides) < 0 else x
