"""numpy.matmul on BLAS; half types widened to float32 a block at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.numpy._support import Array, quiet, result_dtype, store
from portable.device import Device
from portable.op import Problem, TensorSpec

LAYOUT_FREE = True
WIDE_BYTES = 64 << 20
"""Most bytes of float32 copies of half operands at a time."""


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """numpy.matmul itself where it is right and fast."""
    if problem.dtype in ("float16", "bfloat16"):
        return quiet(_half(problem))
    product = _product(problem)
    return quiet(product) if problem.dtype in ("float32", "float64") else product


def _product(problem: Problem) -> Kernel:
    a, b = problem.tensors
    if not problem.results[0].shape:
        return lambda x, y: np.asarray(np.matmul(x, y))
    if _is_reversed(a) or _is_reversed(b):
        # BLAS takes no negative strides, and NumPy's own loop is many times slower.
        return lambda x, y: np.matmul(np.ascontiguousarray(x), np.ascontiguousarray(y))
    if a.ndim > 2 and b.ndim == 2 and a.contiguous:
        return _folded(problem)
    return np.matmul


def _folded(problem: Problem) -> Kernel:
    """(..., m, k) @ (k, n) as one product of (... m, k): BLAS sees all rows at once."""
    k, shape = problem["b"].shape[0], problem.results[0].shape
    rows = problem["a"].size // k if k else 0

    def kernel(a: Array, b: Array) -> Array:
        y: Array = np.matmul(a.reshape(rows, k), b)
        return y.reshape(shape)

    return kernel if k else np.matmul


def _half(problem: Problem) -> Kernel:
    """Blocks of b's columns and a's rows in float32; each product is rounded once."""
    dtype, shape = result_dtype(problem), problem.results[0].shape

    def kernel(a: Array, b: Array) -> Array:
        a2 = a[None, :] if a.ndim == 1 else a
        b2 = b[:, None] if b.ndim == 1 else b
        if b2.ndim == 2:
            a2 = a2.reshape(-1, a2.shape[-1]) if a2.size else a2
        batch = np.broadcast_shapes(a2.shape[:-2], b2.shape[:-2])
        y = np.empty((*batch, a2.shape[-2], b2.shape[-1]), dtype)
        a2 = np.broadcast_to(a2, batch + a2.shape[-2:])
        b2 = np.broadcast_to(b2, batch + b2.shape[-2:])
        for index in np.ndindex(batch):
            _half_2d(a2[index], b2[index], y[index])
        return y.reshape(shape)

    return kernel


def _half_2d(a: Array, b: Array, y: Array) -> None:
    (m, k), n = a.shape, b.shape[1]
    step = max(WIDE_BYTES // (4 * max(k, 1)), 64)
    for j in range(0, n, step):
        wide = b[:, j : j + step].astype(np.float32)
        for i in range(0, m, step):
            part = np.matmul(a[i : i + step].astype(np.float32), wide)
            store(y[i : i + step, j : j + step], part)


def _is_reversed(spec: TensorSpec) -> bool:
    return spec.strides is not None and any(s < 0 for s in spec.strides)
