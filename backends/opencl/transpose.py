"""transpose: one strided copy, by tiles where the contiguous axis changes."""

from __future__ import annotations

from portable.backend import Config, Kernel
from portable.backends.opencl._launch import constant
from portable.backends.opencl._plan import (
    MAX_OUTER,
    Builder,
    Dim,
    add_copy,
    collapse,
    strides_of,
    why_not_memory,
)
from portable.device import Device
from portable.op import Problem

SOURCES = ("_common.cl", "copy.cl")


def _dims(problem: Problem) -> list[Dim]:
    x, axes = problem["x"], problem.param("axes")
    strides = strides_of(x)
    dense = strides_of(problem.results[0])
    return collapse([(x.shape[i], strides[i], d) for i, d in zip(axes, dense, strict=True)])


def why_not(problem: Problem, device: Device) -> list[str]:
    """Elements of 1, 2, 4 or 8 bytes, seven separate axes at most."""
    x = problem["x"]
    if x.itemsize > 8:
        return [f"dtype is {x.dtype} (takes elements of 1, 2, 4 or 8 bytes)"]
    if len(_dims(problem)) > MAX_OUTER + 1:
        return [f"{len(_dims(problem))} separate axes (takes {MAX_OUTER + 1})"]
    return why_not_memory(problem, device)


def configs(problem: Problem, device: Device) -> list[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    x = problem["x"]
    if x.size == 0:
        return constant(problem, [0])
    b = Builder(problem, device)
    add_copy(b, b.operand("x"), b.out(), _dims(problem), x.itemsize)
    return b.build()
