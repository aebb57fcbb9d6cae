"""Residual addition and RMS norm in float32 (float64), jitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._jit import jitted, wide
from portable.backends.jax.rms_norm import normalized
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
    """The norm is of the sum before it is rounded."""
    eps = problem.param("eps")

    def add_rms_norm(x: Any, residual: Any, weight: Any = None) -> tuple[Any, Any]:
        total = wide(x) + wide(residual)
        return normalized(total, weight, eps).astype(x.dtype), total.astype(x.dtype)

    return jitted(problem, add_rms_norm)
