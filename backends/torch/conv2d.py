"""torch.nn.functional.conv2d: oneDNN, cuDNN, MPS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from portable.backend import Config, Kernel
from portable.backends.torch._guard import guarded
from portable.backends.torch._support import dtype_of, float_reasons, half_configs
from portable.device import Device
from portable.op import Problem

DIFFERENTIABLE = True
TRACEABLE = True


def why_not(problem: Problem, device: Device) -> list[str]:
    """float64 on MPS."""
    return float_reasons(problem, device)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """{"widen": ...} for half types on the CPU."""
    return half_configs(problem, device, problem["w"].shape[1])


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """F.conv2d, guarded against global modes that lower precision."""
    how = [problem.param(name) for name in ("stride", "padding", "dilation", "groups")]
    compute = torch.float32 if config.get("widen") else dtype_of(problem)
    dtype, shape = dtype_of(problem), problem.results[0].shape

    def kernel(x: Any, w: Any, bias: Any = None) -> Any:
        if 0 in shape or x.numel() == 0:  # torch has its own idea of no channels
            y = x.new_zeros(shape)
            return y if bias is None else y + bias[:, None, None]
        bias = None if bias is None else bias.to(compute)
        return F.conv2d(x.to(compute), w.to(compute), bias, *how).to(dtype)

    return guarded(kernel, problem, device)
