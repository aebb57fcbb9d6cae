"""rms_norm and layer_norm on rows: two passes over a row that stays in the first-level cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from portable.backend import Config, Kernel
from portable.op import Problem
from portable_numba._compile import Array, build, prefer, read, rows, write


def rms(x, weight, bias, eps, y):
    """y = x / sqrt(mean(x^2) + eps) * weight + bias."""
    n = x.shape[1]
    for i in numba.prange(x.shape[0]):
        total = 0.0
        for k in range(n):
            value = np.float64(x[i, k])
            total += value * value
        scale = 1.0 / np.sqrt(total / n + eps)
        for k in range(n):
            y[i, k] = x[i, k] * scale * weight[k] + bias[k]


def layer(x, weight, bias, eps, y):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias; the variance from differences."""
    n = x.shape[1]
    for i in numba.prange(x.shape[0]):
        total = 0.0
        for k in range(n):
            total += x[i, k]
        mean = total / n
        square = 0.0
        for k in range(n):
            apart = x[i, k] - mean
            square += apart * apart
        scale = 1.0 / np.sqrt(square / n + eps)
        for k in range(n):
            y[i, k] = (x[i, k] - mean) * scale * weight[k] + bias[k]


def normalizer(
    problem: Problem, config: Config, body: Callable[..., Any]
) -> Callable[[Array, Array | None, Array | None], Array]:
    """(x, weight or None, bias or None) -> y; absent ones count as ones and zeros."""
    dtype, n, eps = problem.dtype, problem["x"].shape[-1], float(problem.param("eps"))
    vector = read(dtype, 1)
    run = build(
        body, (read(dtype, 2), vector, vector, numba.float64, write(dtype, 2)),
        prefer(problem, config),
    )  # fmt: skip
    ones, zeros = np.ones(n, dtype), np.zeros(n, dtype)

    def normalize(x: Array, weight: Array | None, bias: Array | None) -> Array:
        y = np.empty(x.shape, x.dtype)
        if y.size:
            w = ones if weight is None else np.ascontiguousarray(weight)
            b = zeros if bias is None else np.ascontiguousarray(bias)
            run(rows(x), w, b, eps, y.reshape(-1, n))
        return y

    return normalize


def kernel(problem: Problem, config: Config, body: Callable[..., Any]) -> Kernel:
    """A norm of x with the problem's optional weight and bias."""
    normalize = normalizer(problem, config, body)
    weight, bias = problem.position("weight"), problem.position("bias")

    def run(*arrays: Array) -> Array:
        return normalize(
            arrays[0],
            None if weight is None else arrays[weight],
            None if bias is None else arrays[bias],
        )

    return run
