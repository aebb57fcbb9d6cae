"""Residual addition and RMS norm in one pass over blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.numpy._support import (
    Array,
    quiet,
    result_dtype,
    row_blocks,
    store,
    wide_dtype,
)
from portable.backends.numpy.rms_norm import scale_to_rms
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Blocks of rows; the norm is of the sum before it is rounded."""
    dtype, compute, eps = result_dtype(problem), wide_dtype(problem), problem.param("eps")
    n = problem["x"].shape[-1]

    def kernel(x: Array, residual: Array, weight: Array | None = None) -> tuple[Array, Array]:
        y, total = np.empty(x.shape, dtype), np.empty(x.shape, dtype)
        rows = [a.reshape(-1, n) for a in (x, residual, y, total)] if x.size else []
        scale = None if weight is None else weight.astype(compute)
        for block in row_blocks(rows, compute.itemsize):
            source, other, target, summed = block
            wide = source.astype(compute)
            wide += other
            store(summed, wide.copy() if dtype == np.float16 else wide)
            scale_to_rms(wide, eps)
            if scale is not None:
                wide *= scale
            store(target, wide)
        return y, total

    return quiet(kernel)
