"""torch.softmax: one fused kernel, computed in float32 for half types."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from portable.backend import Config, Kernel
from portable.backends.torch._support import dtype_of, float_reasons
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
    axis, dtype = problem.param("axis"), dtype_of(problem)
    if _rounds_inside(problem, device):
        return lambda x: torch.softmax(x, axis, dtype=torch.float32).to(dtype)
    return lambda x: torch.softmax(x, axis, dtype=dtype)


def _rounds_inside(problem: Problem, device: Device) -> bool:
    """The CPU kernel for axes other than the last rounds intermediates to the half type."""
    half = problem.dtype in ("float16", "bfloat16")
    return half and device.id == "cpu" and problem.param("axis") != problem["x"].ndim - 1
