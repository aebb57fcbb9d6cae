"""Largest elements; NaN wins."""

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
    """numpy.maximum.reduce in the array's own dtype."""
    dtype, axes, keepdims = result_dtype(problem), problem.param("axis"), problem.param("keepdims")

    def kernel(x: Array) -> Array:
        y = np.maximum.reduce(x, axis=axes, keepdims=keepdims)
        return np.array(y, dtype, copy=None if axes else True)

    return quiet(kernel)
