"""torch.amax: NaN wins; equal elements share the gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from portable.backend import Config, Kernel
from portable.backends.torch._support import float_reasons, int_reasons
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
    """torch.amax over the axes."""
    axes, keepdims = problem.param("axis"), problem.param("keepdims")
    if not axes:  # torch takes () for all axes
        return lambda x: x.clone()
    return lambda x: torch.amax(x, axes, keepdims)
