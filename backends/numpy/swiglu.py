"""SwiGLU: silu(gate) * up, in place on blocks."""

from __future__ import annotations

from collections.abc import Sequence

from portable.backend import Config, Kernel
from portable.backends.numpy._activations import silu
from portable.backends.numpy._support import Array, elementwise
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Blocks of the flattened arrays."""
    return elementwise(problem, _body)


def _body(gate: Array, up: Array) -> None:
    silu(gate)
    gate *= up
