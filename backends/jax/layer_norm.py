"""Layer norm in two passes, in float32 (float64), jitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._jit import jitted, wide
from portable.backends.jax._load import jax, jnp
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
    """XLA fuses the passes where it can."""
    eps, names = problem.param("eps"), problem.operands

    def layer_norm(*arrays: Any) -> Any:
        given = {name: wide(array) for name, array in zip(names, arrays, strict=True)}
        centred = given["x"] - given["x"].mean(-1, keepdims=True)
        y = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + eps)
        y = y * given.get("weight", 1) + given.get("bias", 0)
        return y.astype(arrays[0].dtype)

    return jitted(problem, layer_norm)
