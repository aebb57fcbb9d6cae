"""Matrix product by XLA's dot; half types accumulate in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._jit import accumulator, jitted, precision
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
    """jnp.matmul, jitted."""
    total, how = accumulator(problem.dtype), precision(problem)

    def matmul(a: Any, b: Any) -> Any:
        return jnp.matmul(a, b, precision=how, preferred_element_type=total).astype(a.dtype)

    return jitted(problem, matmul)
