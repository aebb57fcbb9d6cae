"""torch.nn.functional.gelu."""

from __future__ import annotations

from collections.abc import Sequence

from portable.backend import Config, Kernel
from portable.backends.torch._activations import ACTIVATIONS
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
    """F.gelu with its approximation."""
    return ACTIVATIONS[{"none": "gelu", "tanh": "gelu_tanh"}[problem.param("approximate")]]
