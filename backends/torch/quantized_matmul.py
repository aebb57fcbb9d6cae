"""Products of int8 and fp8 matrices with scales, from torch's float32 and integer products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from portable.backend import Config, Kernel
from portable.backends.torch._guard import full_precision
from portable.backends.torch._support import dtype_of
from portable.device import Device
from portable.op import Problem

DIFFERENTIABLE = True
TRACEABLE = True


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """int8 on the CPU by torch._int_mm, else one float32 product per block of k.

    Products of int8 are exact in float32 up to 1024 of them (127^2 * 1024 < 2^24), so longer sums
    are cut; torch's fp8 product for GPUs keeps too few bits of the sum for the error bound.
    """
    dtype, block = dtype_of(problem), problem.param("block")
    m, k = problem["a"].shape
    n = problem["b"].shape[1]
    integer = problem.dtype == "int8"
    step = block or (min(max(k, 1), 1024) if integer else max(k, 1))
    whole = integer and not block and device.id == "cpu" and 0 not in (m, n, k)

    def kernel(a: Any, b: Any, scale_a: Any, scale_b: Any) -> Any:
        if whole:
            total = torch._int_mm(a.contiguous(), b.contiguous())  # it ignores stride 0
            return (total.to(torch.float64) * scale_a * scale_b).to(dtype)
        y = torch.zeros((m, n), dtype=torch.float32, device=a.device)
        for index, start in enumerate(range(0, k, step)):
            left, right = a[:, start : start + step].float(), b[start : start + step].float()
            part = torch.matmul(left, right)
            part = part * _rows_scale(scale_a, m, index, block)
            y = y + part * _columns_scale(scale_b, n, index, block)
        return y.to(dtype)

    return full_precision(kernel, device)


def _rows_scale(scale: Any, m: int, index: int, block: int) -> Any:
    """() or (m, 1): the same for every block of k; (m, blocks): one column of it."""
    if scale.ndim == 0 or not block or tuple(scale.shape) == (m, 1):
        return scale
    return scale[:, index : index + 1]


def _columns_scale(scale: Any, n: int, index: int, block: int) -> Any:
    """() or (1, n): the same for every block of k; (blocks, n / block): one row, spread."""
    if scale.ndim == 0 or not block or tuple(scale.shape) == (1, n):
        return scale
    return scale[index].repeat_interleave(block)[:n]
