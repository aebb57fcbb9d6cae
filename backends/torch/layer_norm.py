"""torch.nn.functional.layer_norm: one fused kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.nn import functional as F

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
    """F.layer_norm over the last axis; torch.autocast would return float32."""
    shape, eps, dtype = problem["x"].shape[-1:], problem.param("eps"), dtype_of(problem)
    names = problem.operands

    def kernel(*arrays: Any) -> Any:
        given = dict(zip(names, arrays, strict=True))
        y = F.layer_norm(given["x"], shape, given.get("weight"), given.get("bias"), eps)
        return y.to(dtype)

    return kernel
