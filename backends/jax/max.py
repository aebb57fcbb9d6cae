"""Largest elements, jitted; NaN wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._jit import jitted
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
    """jnp.max in the array's own dtype."""
    axes, keepdims = problem.param("axis"), problem.param("keepdims")

    def max(x: Any) -> Any:
        if not axes:
            return jnp.copy(x)  # the result must not be the input
        y = jnp.max(x, axis=axes, keepdims=keepdims)
        if not jnp.issubdtype(x.dtype, jnp.floating):
            return y
        # XLA's vectorised maximum on the CPU loses NaN now and then (jax 0.10).
        return jnp.where(jnp.isnan(x).any(axis=axes, keepdims=keepdims), jnp.nan, y)

    return jitted(problem, max)
