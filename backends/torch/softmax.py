"""torch.softmax: one fused kernel; half types are computed in float32 inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from portable.backend import Config, Kernel
from portable.backends.torch._support import float_reasons
from portable.device import Device
from portable.op import Problem

DIFFERENTIABLE = True
TRACEABLE = True


def why_not(problem: Problem, device: Device) -> list[str]:
    """float64 on MPS."""
    return float_reasons(problem, device)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """The dtype is named: torch.autocast would return float32."""
    axis, dtype = problem.param("axis"), getattr(torch, problem.dtype)
    softmax = torch.softmax

    def kernel(x: Any) -> Any:
        return softmax(x, axis, dtype=dtype)

    return kernel
