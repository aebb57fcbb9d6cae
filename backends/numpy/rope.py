"""Rotary embedding: halves or pairs of the last axis, rotated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.numpy._support import Array, quiet, result_dtype, store, wide_dtype
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Two products and a sum per half, in the compute dtype."""
    dtype, compute = result_dtype(problem), wide_dtype(problem)
    half = problem["x"].shape[-1] // 2
    first, second = (
        (slice(0, None, 2), slice(1, None, 2))
        if problem.param("interleaved")
        else (slice(0, half), slice(half, None))
    )

    def kernel(x: Array, cos: Array, sin: Array) -> Array:
        y = np.empty(x.shape, dtype)
        cos, sin = cos.astype(compute, copy=False), sin.astype(compute, copy=False)
        x1 = x[..., first].astype(compute, copy=False)
        x2 = x[..., second].astype(compute, copy=False)
        part = x1 * cos
        part -= x2 * sin
        store(y[..., first], part)
        np.multiply(x2, cos, out=part)
        part += x1 * sin
        store(y[..., second], part)
        return y

    return quiet(kernel)
