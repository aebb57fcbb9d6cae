"""gelu and swiglu share one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.opencl._launch import constant
from portable.backends.opencl._norm import why_not
from portable.backends.opencl._plan import Builder
from portable.backends.opencl._softmax import configs
from portable.device import Device
from portable.op import Problem

SOURCES = ("_common.cl", "_activations.cl", "pointwise.cl")
__all__ = ["SOURCES", "compile_pointwise", "configs", "why_not"]
_BLOCK = 8192


def compile_pointwise(
    problem: Problem, device: Device, config: Config, names: Sequence[str], option: str
) -> Kernel:
    """One row when everything is contiguous, else rows of the last axis."""
    first = problem[names[0]]
    if first.size == 0:
        return constant(problem, [0])
    b = Builder(problem, device, vector=int(config.get("vector", 0)) or None)
    row_axes = first.ndim if all(problem[n].contiguous for n in names) else min(first.ndim, 1)
    arguments: list[Any] = []
    for name in names:
        rows = b.rows(name, row_axes)
        arguments += [rows.array, rows.stride]
    n = first.size if row_axes == first.ndim else first.shape[-1]
    count = first.size // n
    tasks = count * -(-n // _BLOCK)
    files = ("_activations.cl", "pointwise.cl")
    arguments += [b.out(), count, n, _BLOCK]
    b.step("pointwise", files, tasks, arguments, [option, *b.streaming()], per_unit=8)
    return b.build()
