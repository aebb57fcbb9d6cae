"""GELU in float32 (float64), jitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._activations import ACTIVATIONS
from portable.backends.jax._jit import jitted, wide
from portable.device import Device
from portable.op import Problem

DIFFERENTIABLE = True
TRACEABLE = True


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune: XLA decides."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """x/2 erfc(-x / sqrt 2), or the tanh formula."""
    name = {"none": "gelu", "tanh": "gelu_tanh"}[problem.param("approximate")]
    activation = ACTIVATIONS[name]

    def gelu(x: Any) -> Any:
        return activation(wide(x)).astype(x.dtype)

    return jitted(problem, gelu)
