"""torch.mean in the accumulator's dtype."""

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
    compute, dtype = wide(problem.results[0].dtype), dtype_of(problem)
    axes, keepdims = problem.param("axis"), problem.param("keepdims")
    if not axes:  # torch takes () for all axes
        return lambda x: x.to(dtype, copy=True)
    return lambda x: torch.mean(x, axes, keepdims, dtype=compute).to(dtype)
