"""SwiGLU: silu(gate) * up in float32 (float64), jitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._jit import jitted, wide
from portable.backends.jax._load import jax
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

    def swiglu(gate: Any, up: Any) -> Any:
        return (jax.nn.silu(wide(gate)) * wide(up)).astype(gate.dtype)

    return jitted(problem, swiglu)
