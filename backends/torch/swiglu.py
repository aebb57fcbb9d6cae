"""F.silu(gate) * up: two kernels."""

from __future__ import annotations

from collections.abc import Sequence

from torch.nn import functional as F

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
    """Two kernels; half types round silu(gate) in between."""
    return lambda gate, up: F.silu(gate) * up
