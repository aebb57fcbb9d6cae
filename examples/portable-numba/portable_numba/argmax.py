"""Index of the largest element, a row per core; the first of equals, the first NaN wins."""

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

SOURCES = ("_compile.py",)


def why_not(problem: Problem, device: Device) -> list[str]:
    """Floats of 32 and 64 bits."""
    return floats_only(problem)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """All cores or one."""
    return thread_configs(problem)


def _first_largest(x, y):
    """The largest value of a row first (vector code), then where it is."""
    for i in numba.prange(x.shape[0]):
        best, nan = x[i, 0], False
        for k in range(x.shape[1]):
            value = x[i, k]
            best = value if value > best else best
            nan |= value != value
        for k in range(x.shape[1]):
            value = x[i, k]
            if (nan and value != value) or (not nan and value == best):
                y[i] = k
                break


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Rows along the axis; the flattened array is one row."""
    axis, shape = problem.param("axis"), problem.results[0].shape
    run = build(
        _first_largest, (read(problem.dtype, 2), write("int64", 1)), prefer(problem, config)
    )

    def kernel(x: Array) -> Array:
        y = np.empty(shape, np.int64)
        if y.size:
            run(rows(x.reshape(-1) if axis is None else x, -1 if axis is None else axis),
                y.reshape(-1))  # fmt: skip
        return y

    return kernel
