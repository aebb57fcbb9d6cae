"""RMS norm from torch's elementary kernels, in float32 for half types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from portable.backend import Config, Kernel
from portable.backends.torch._support import dtype_of, float_reasons, wide
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
    """x / sqrt(mean(x^2) + eps) * weight."""
    compute, dtype, eps = wide(problem.dtype), dtype_of(problem), problem.param("eps")

    def kernel(x: Any, weight: Any = None) -> Any:
        return normalized(x.to(compute), weight, eps).to(dtype)

    return kernel


def normalized(x: Any, weight: Any, eps: float) -> Any:
    """RMS norm in the dtype of x."""
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return y if weight is None else y * weight
