"""Index of the largest element, jitted; the first NaN wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._jit import index_dtype, jitted
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
    """jnp.argmax; int64, but int32 inside of a trace without 64-bit types."""
    axis, keepdims = problem.param("axis"), problem.param("keepdims")
    shape = problem.results[0].shape

    def argmax(x: Any) -> Any:
        if 0 in shape:
            return jnp.zeros(shape, index_dtype())
        return jnp.argmax(x, axis=axis, keepdims=keepdims).astype(index_dtype())

    return jitted(problem, argmax)
