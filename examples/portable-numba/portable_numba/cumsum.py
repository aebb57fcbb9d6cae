"""Running sums, a row per core; sums in float64, rounded once per element."""

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


def _scan(x, y):
    """Along the middle axis of x (outer, n, inner)."""
    outer, n, inner = x.shape
    for flat in numba.prange(outer * inner):
        i, j = flat // inner, flat % inner
        total = 0.0
        for k in range(n):
            total += x[i, k, j]
            y[i, k, j] = total


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """(outer, n, inner) with the axis in the middle."""
    x, axis = problem["x"], problem.param("axis")
    shape = (
        int(np.prod(x.shape[:axis])), x.shape[axis], int(np.prod(x.shape[axis + 1 :])),
    )  # fmt: skip
    run = build(_scan, (read(x.dtype, 3), write(x.dtype, 3)), prefer(problem, config))

    def kernel(x: Array) -> Array:
        y = np.empty(x.shape, x.dtype)
        run(np.ascontiguousarray(x).reshape(shape), y.reshape(shape))
        return y

    return kernel
