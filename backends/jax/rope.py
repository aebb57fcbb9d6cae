"""Rotary embedding in float32 (float64), jitted."""

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
    """One fused loop."""
    interleaved, half = problem.param("interleaved"), problem["x"].shape[-1] // 2
    shape = problem["x"].shape

    def rope(x: Any, cos: Any, sin: Any) -> Any:
        total, cos, sin = wide(x), wide(cos), wide(sin)
        if interleaved:
            x1, x2 = total[..., 0::2], total[..., 1::2]
        else:
            x1, x2 = total[..., :half], total[..., half:]
        y1, y2 = x1 * cos - x2 * sin, x2 * cos + x1 * sin
        joined = jnp.stack((y1, y2), -1) if interleaved else jnp.concatenate((y1, y2), -1)
        return joined.reshape(shape).astype(x.dtype)

    return jitted(problem, rope)
