"""Product of int8 or fp8 matrices with scales, exact sums or float32 ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.numpy._support import Array, quiet, result_dtype
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """One BLAS product per block of k; the scales are applied to each block's sum.

    A float32 sum of int8 products is exact up to 1024 of them (127^2 * 1024 < 2^24): longer ones
    are taken in float64, where BLAS is exact up to k = 2^38.
    """
    dtype, block = result_dtype(problem), problem.param("block")
    k = problem["a"].shape[1]
    step = block or max(k, 1)
    exact = np.float64 if problem.dtype == "int8" and step > 1024 else np.float32

    def kernel(a: Array, b: Array, scale_a: Array, scale_b: Array) -> Array:
        y = np.zeros((a.shape[0], b.shape[1]), np.float32)
        left, right = a.astype(exact), b.astype(exact)
        for index, start in enumerate(range(0, k, step)):
            part = np.matmul(left[:, start : start + step], right[start : start + step])
            part *= _rows_scale(scale_a, a.shape[0], index, block)
            part *= _columns_scale(scale_b, b.shape[1], index, block)
            y += part
        return y.astype(dtype, copy=False)

    return quiet(kernel)


def _rows_scale(scale: Array, m: int, index: int, block: int) -> Array:
    """() or (m, 1): the same for every block of k; (m, blocks): one column of it."""
    if scale.ndim == 0 or not block or scale.shape == (m, 1):
        return scale
    return scale[:, index : index + 1]


def _columns_scale(scale: Array, n: int, index: int, block: int) -> Array:
    """() or (1, n): the same for every block of k; (blocks, n / block): one row, spread."""
    if scale.ndim == 0 or not block or scale.shape == (1, n):
        return scale
    return np.repeat(scale[index], block)[:n]
