"""torch.cumsum in the accumulator's dtype."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from portable.backend import Config, Kernel
from portable.backends.torch._support import dtype_of, float_reasons, int_reasons, wide
from portable.device import Device
from portable.op import Problem

DIFFERENTIABLE = True
TRACEABLE = True


def why_not(problem: Problem, device: Device) -> list[str]:
    """float64 on MPS; unsigned types but uint8."""
    return float_reasons(problem, device) + int_reasons(problem, device)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Rounded once at the end."""
    axis, compute, dtype = problem.param("axis"), wide(problem.dtype), dtype_of(problem)
    return lambda x: torch.cumsum(x, axis, dtype=compute).to(dtype)
