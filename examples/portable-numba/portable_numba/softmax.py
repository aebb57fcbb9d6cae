"""exp(x - max) / sum along an axis, a row per core."""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np

from portable.backend import Config, Kernel
from portable.device import Device
from portable.op import Problem
from portable_numba._compile import (
    Array,
    build,
    floats_only,
    prefer,
    read,
    rows,
    thread_configs,
    write,
)
from portable_numba._exp import exp32

SOURCES = ("_compile.py", "_exp.py")


def why_not(problem: Problem, device: Device) -> list[str]:
    """Floats of 32 and 64 bits."""
    return floats_only(problem)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """All cores or one."""
    return thread_configs(problem)


def _softmax64(x, y):
    for i in numba.prange(x.shape[0]):
        top = x[i, 0]
        for k in range(x.shape[1]):
            top = x[i, k] if not x[i, k] <= top else top  # NaN takes over
        total = 0.0
        for k in range(x.shape[1]):
            y[i, k] = np.exp(x[i, k] - top)
            total += y[i, k]
        for k in range(x.shape[1]):
            y[i, k] /= total


def _softmax32(x, y):
    for i in numba.prange(x.shape[0]):
        top = x[i, 0]
        for k in range(x.shape[1]):
            top = x[i, k] if x[i, k] > top else top
        total = np.float32(0)
        for k in range(x.shape[1]):
            e = exp32(x[i, k] - top)  # NaN where x or top is; then the sum is, and all of the row
            y[i, k] = e
            total += e
        scale = np.float32(1) / total
        for k in range(x.shape[1]):
            y[i, k] *= scale


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Rows along the axis; another axis than the last is moved there and back."""
    dtype, axis = problem.dtype, problem.param("axis")
    body = _softmax32 if dtype == "float32" else _softmax64
    run = build(body, (read(dtype, 2), write(dtype, 2)), prefer(problem, config))

    def kernel(x: Array) -> Array:
        if x.size == 0:
            return np.empty(x.shape, x.dtype)
        source = rows(x, axis)
        y = np.empty(source.shape, x.dtype)
        run(source, y)
        moved = np.moveaxis(x, axis, -1).shape
        return np.ascontiguousarray(np.moveaxis(y.reshape(moved), -1, axis))

    return kernel
