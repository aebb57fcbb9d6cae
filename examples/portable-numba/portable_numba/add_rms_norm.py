"""s = x + residual, y = rms_norm(s), in one pass over memory."""

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


def _add_rms(x, residual, weight, eps, y, s):
    n = x.shape[1]
    for i in numba.prange(x.shape[0]):
        total = 0.0
        for k in range(n):
            s[i, k] = x[i, k] + residual[i, k]
            value = np.float64(s[i, k])
            total += value * value
        scale = 1.0 / np.sqrt(total / n + eps)
        for k in range(n):
            y[i, k] = s[i, k] * scale * weight[k]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """The sum is rounded first, then normalised."""
    dtype, n, eps = problem.dtype, problem["x"].shape[-1], float(problem.param("eps"))
    two, out = read(dtype, 2), write(dtype, 2)
    run = build(
        _add_rms, (two, two, read(dtype, 1), numba.float64, out, out), prefer(problem, config)
    )
    ones = np.ones(n, dtype)

    def kernel(x: Array, residual: Array, *weight: Array) -> tuple[Array, Array]:
        y, s = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype)
        if y.size:
            w = np.ascontiguousarray(weight[0]) if weight else ones
            run(rows(x), rows(residual), w, eps, y.reshape(-1, n), s.reshape(-1, n))
        return y, s

    return kernel
