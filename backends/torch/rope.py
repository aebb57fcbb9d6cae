"""Rotary embedding from torch's elementary kernels."""

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
    """Two products and a sum per half, in float32 for half types."""
    compute, dtype = wide(problem.dtype), dtype_of(problem)
    interleaved, half = problem.param("interleaved"), problem["x"].shape[-1] // 2

    def kernel(x: Any, cos: Any, sin: Any) -> Any:
        x, cos, sin = x.to(compute), cos.to(compute), sin.to(compute)
        if interleaved:
            x1, x2 = x[..., 0::2], x[..., 1::2]
        else:
            x1, x2 = x[..., :half], x[..., half:]
        y1, y2 = x1 * cos - x2 * sin, x2 * cos + x1 * sin
        y = torch.stack((y1, y2), -1).flatten(-2) if interleaved else torch.cat((y1, y2), -1)
        return y.to(dtype)

    return kernel
