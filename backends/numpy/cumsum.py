"""Running sums; half types accumulate in float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.numpy._support import Array, quiet, result_dtype, wide_dtype
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """numpy.cumsum in the accumulator's dtype."""
    axis, compute, dtype = problem.param("axis"), wide_dtype(problem), result_dtype(problem)

    def kernel(x: Array) -> Array:
        return np.cumsum(x, axis=axis, dtype=compute).astype(dtype, copy=False)

    return quiet(kernel)
