"""Log-softmax in float32 (float64), jitted."""

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
    """jax.nn.log_softmax."""
    axis = problem.param("axis")

    def log_softmax(x: Any) -> Any:
        return jax.nn.log_softmax(wide(x), axis).astype(x.dtype)

    return jitted(problem, log_softmax)
