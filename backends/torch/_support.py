"""What torch takes, in phrases, and the helpers its kernels share."""

from __future__ import annotations

from typing import Any

import torch

from portable import dtypes
from portable.device import Device
from portable.op import Problem


def float_reasons(problem: Problem, device: Device) -> list[str]:
    """Refuses float dtypes that the device's torch kernels do not have."""
    if problem.dtype == "float64" and device.id.startswith("mps"):
        return ["dtype is float64 (mps takes float32, float16, bfloat16)"]
    return []


def wide(dtype: str) -> torch.dtype:
    """The dtype in which half types are computed."""
    found: torch.dtype = getattr(torch, dtypes.accumulator(dtype))
    return found


def dtype_of(problem: Problem, index: int = 0) -> torch.dtype:
    """torch's dtype of a result."""
    found: torch.dtype = getattr(torch, problem.results[index].dtype)
    return found


def int_reasons(problem: Problem, device: Device) -> list[str]:
    """Refuses the unsigned types that torch stores but does not compute with."""
    if problem.dtype in ("uint16", "uint32", "uint64"):
        return [f"dtype is {problem.dtype} (torch computes with uint8 and signed integers)"]
    return []


def has_native_half(dtype: str) -> bool:
    """Whether oneDNN multiplies this half type on the CPU without widening it element by element.

    Without it a float16 product of 512 x 512 took 100 ms here, widened to float32 1.3 ms.
    """
    name = {"float16": "_is_mkldnn_fp16_supported", "bfloat16": "_is_mkldnn_bf16_supported"}[dtype]
    try:
        return bool(getattr(torch.ops.mkldnn, name)())
    except (AttributeError, RuntimeError):
        return False


def half_configs(problem: Problem, device: Device) -> list[dict[str, Any]]:
    """Half types on the CPU: widened to float32 or as they are, the likely faster one first."""
    if device.id != "cpu" or problem.dtype not in ("float16", "bfloat16"):
        return [{}]
    native = has_native_half(problem.dtype)
    return [{"widen": not native}, {"widen": native}]
