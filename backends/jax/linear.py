"""Linear layer: XLA's dot and a fused epilogue in float32 (float64), jitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._activations import ACTIVATIONS
from portable.backends.jax._jit import accumulator, jitted, precision, wide
from portable.backends.jax._load import jnp
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
    """Rounded once, at the end."""
    total, how = accumulator(problem.dtype), precision(problem)
    activation = ACTIVATIONS.get(problem.param("activation"))
    names = problem.operands

    def linear(*arrays: Any) -> Any:
        given = dict(zip(names, arrays, strict=True))
        x = given["x"]
        y = jnp.matmul(x, given["w"], precision=how, preferred_element_type=total)
        if "bias" in given:
            y = y + wide(given["bias"])
        if activation is not None:
            y = activation(y)
        if "residual" in given:
            y = y + wide(given["residual"])
        return y.astype(x.dtype)

    return jitted(problem, linear)
