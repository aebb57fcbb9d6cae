"""Running sums in the accumulator's dtype, jitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._jit import jitted, wide
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
    """jnp.cumsum, rounded once."""
    axis = problem.param("axis")

    def cumsum(x: Any) -> Any:
        return jnp.cumsum(wide(x), axis=axis, dtype=wide(x).dtype).astype(x.dtype)

    return jitted(problem, cumsum)
