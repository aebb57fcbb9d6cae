"""Index of the largest element; the first NaN wins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.numpy._support import Array, quiet
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """numpy.argmax; half types in float32, where it is vectorised."""
    axis, keepdims = problem.param("axis"), problem.param("keepdims")
    wide = problem.dtype in ("float16", "bfloat16")
    shape = problem.results[0].shape

    def kernel(x: Array) -> Array:
        if 0 in shape:
            return np.empty(shape, np.int64)
        x = x.astype(np.float32) if wide else x
        return np.asarray(np.argmax(x, axis=axis, keepdims=keepdims), np.int64)

    return quiet(kernel)
