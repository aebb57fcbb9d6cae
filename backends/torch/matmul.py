"""torch.matmul: oneDNN, MKL, cuBLAS. Half types on a CPU without units for them: in float32.

A product of bools, "any of the ands", is a float32 product that is not 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from portable.backend import Config, Kernel
from portable.backends.torch._guard import guarded
from portable.backends.torch._support import float_reasons, half_configs
from portable.device import Device
from portable.op import Problem

DIFFERENTIABLE = True
TRACEABLE = True
LAYOUT_FREE = True
_ON_CPU = ("bool", "int8", "uint8", "int16", "int32", "int64")


def why_not(problem: Problem, device: Device) -> list[str]:
    """Integers and bool on the CPU only; no unsigned types but uint8."""
    if problem.dtype in ("float64", "float32", "float16", "bfloat16"):
        return float_reasons(problem, device)
    if device.id != "cpu":
        return [f"dtype is {problem.dtype} (torch multiplies only floats on {device.id})"]
    if problem.dtype not in _ON_CPU:
        return [f"dtype is {problem.dtype} (takes floats, {', '.join(_ON_CPU)})"]
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """{"widen": ...} for half types on the CPU."""
    return half_configs(problem, device, problem.tensors[0].shape[-1])


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """torch.matmul itself, guarded against global modes that lower precision."""

    def widened(a: Any, b: Any) -> Any:
        return torch.matmul(a.float(), b.float()).to(a.dtype)  # to bool: is not 0

    wide = problem.dtype == "bool" or config.get("widen")
    return guarded(widened if wide else torch.matmul, problem, device)
