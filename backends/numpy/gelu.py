"""GELU by erf or tanh, in place on blocks."""

from __future__ import annotations

from collections.abc import Sequence

from portable.backend import Config, Kernel
from portable.backends.numpy._activations import ACTIVATIONS
from portable.backends.numpy._support import elementwise
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Blocks of the flattened array."""
    name = {"none": "gelu", "tanh": "gelu_tanh"}[problem.param("approximate")]
    return elementwise(problem, ACTIVATIONS[name])
