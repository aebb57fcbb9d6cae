"""Means in the accumulator's dtype, jitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._jit import accumulator, jitted, result_dtype, wide
from portable.backends.jax._load import jnp
from portable.device import Device
from portable.op import Problem

DIFFERENTIABLE = True
TRACEABLE = True


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune: XLA decides."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """jnp.mean, rounded once."""
    axes, keepdims = problem.param("axis"), problem.param("keepdims")
    dtype = result_dtype(problem)

    def mean(x: Any) -> Any:
        total = jnp.mean(wide(x).astype(accumulator(dtype)), axis=axes, keepdims=keepdims)
        return total.astype(dtype)

    return jitted(problem, mean)
