"""RMS norm in float32 (float64), jitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._jit import jitted, wide
from portable.backends.jax._load import jax, jnp
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
    """x / sqrt(mean(x^2) + eps) * weight."""
    eps = problem.param("eps")

    def rms_norm(x: Any, weight: Any = None) -> Any:
        return normalized(wide(x), weight, eps).astype(x.dtype)

    return jitted(problem, rms_norm)


def normalized(x: Any, weight: Any, eps: float) -> Any:
    """RMS norm in the dtype of x."""
    y = x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + eps)
    return y if weight is None else y * wide(weight)
