"""Residual addition and RMS norm from torch's elementary kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.torch._support import dtype_of, float_reasons, wide
from portable.backends.torch.rms_norm import normalized
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
    """The sum in float32 for half types; the norm is of the sum before it is rounded."""
    compute, dtype, eps = wide(problem.dtype), dtype_of(problem), problem.param("eps")

    def kernel(x: Any, residual: Any, weight: Any = None) -> Any:
        total = x.to(compute) + residual
        return normalized(total, weight, eps).to(dtype), total.to(dtype)

    return kernel
