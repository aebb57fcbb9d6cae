"""What torch takes, in phrases, and the helpers its kernels share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def half_configs(problem: Problem, device: Device, depth: int = 0) -> list[dict[str, Any]]:
    """Half types on the CPU: widened to float32 or as they are, the likely faster one first.

    Args:
        problem: what is computed.
        device: where.
        depth: what the kernel reads in blocks: the inner extent of a product, the channels of a
            group; 0 where it keeps to its rows anyway.
    """
    if device.id != "cpu" or problem.dtype not in ("float16", "bfloat16"):
        return [{}]
    native = has_native_half(problem.dtype)
    if native and depth % TILE_DEPTH and not keeps_to_its_row(problem.dtype):
        return [{"widen": True}]
    return [{"widen": not native}, {"widen": native}]


TILE_DEPTH = 32
"""Elements of a half type in a row of an AMX tile (64 bytes)."""


@functools.cache
def keeps_to_its_row(dtype: str) -> bool:
    """Whether NaN in one row of a half product stays out of the others.

    oneDNN 3.12's AMX kernels read past the end of a row that is no multiple of a tile deep, and
    multiply what they find there, the start of the next row, by 0: NaN where it is not finite.
    """

    def probe() -> bool:
        x = torch.zeros(21, TILE_DEPTH + 1, dtype=getattr(torch, dtype), device="cpu")
        x[10] = torch.nan
        y = torch.matmul(x, torch.zeros_like(x[0, :, None]).expand(-1, 33))
        return int(y.isnan().any(1).sum()) == 1

    return apart_from_modes(probe)


def apart_from_modes(work: Callable[[], bool]) -> bool:
    """What `work` says in a thread of its own, which the modes of the caller's (fake tensors, a
    default device, autocast) do not reach."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
