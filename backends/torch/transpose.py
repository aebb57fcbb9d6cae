"""Permuted axes, written out row-major."""

from __future__ import annotations

from collections.abc import Sequence

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
    """A view by strides, copied once."""
    axes = problem.param("axes")
    return lambda x: x.permute(axes).clone(memory_format=torch.contiguous_format)
