"""torch.addmm and matmul, then the activation and the residual."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from portable.backend import Config, Kernel
from portable.backends.torch._activations import ACTIVATIONS
from portable.backends.torch._guard import guarded
from portable.backends.torch._support import dtype_of, float_reasons, half_configs
from portable.device import Device
from portable.op import Problem

DIFFERENTIABLE = True
TRACEABLE = True


def why_not(problem: Problem, device: Device) -> list[str]:
    """float64 on MPS."""
    return float_reasons(problem, device)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """{"widen": ...} for half types on the CPU."""
    return half_configs(problem, device, problem["x"].shape[-1])


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Half types: rounded after each stage, or widened to float32 throughout."""
    compute = torch.float32 if config.get("widen") else dtype_of(problem)
    dtype, activation = dtype_of(problem), ACTIVATIONS.get(problem.param("activation"))
    names = problem.operands

    def kernel(*arrays: Any) -> Any:
        given = {name: array.to(compute) for name, array in zip(names, arrays, strict=True)}
        y = _product(given["x"], given["w"], given.get("bias"))
        if activation is not None:
            y = activation(y)
        if "residual" in given:
            y = y + given["residual"]
        return y.to(dtype)

    return guarded(kernel, problem, device)


def _product(x: Any, w: Any, bias: Any) -> Any:
    if bias is None:
        return torch.matmul(x, w)
    # The bias is added before the sum is rounded to a half type.
    y = torch.addmm(bias, x.reshape(math.prod(x.shape[:-1]), w.shape[0]), w)
    return y.reshape(*x.shape[:-1], w.shape[1])
