"""Permuted axes, written out, jitted."""

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
    """jnp.transpose; copied also where nothing moves: the result must not be the input."""
    axes = problem.param("axes")

    def transpose(x: Any) -> Any:
        return jnp.copy(jnp.transpose(x, axes))

    return jitted(problem, transpose)
