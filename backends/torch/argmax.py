"""torch.argmax: the first of equals, the first NaN."""

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
    """torch.argmax; bool by way of uint8."""
    axis, keepdims = problem.param("axis"), problem.param("keepdims")
    shape = problem.results[0].shape
    if 0 in shape:
        return lambda x: torch.empty(shape, dtype=torch.int64, device=x.device)
    if problem.dtype == "bool":
        return lambda x: torch.argmax(x.to(torch.uint8), axis, keepdims)
    if axis is None and keepdims:
        return lambda x: torch.argmax(x).reshape(shape)
    return lambda x: torch.argmax(x, axis, keepdims)
