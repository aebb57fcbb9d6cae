"""argmax along one axis, or of all elements; long rows in parts."""

from __future__ import annotations

import math

from portable.backend import Config, Kernel
from portable.backends.opencl._launch import constant
from portable.backends.opencl._plan import Builder
from portable.backends.opencl._reduce import configs, parts_of, why_not
from portable.device import Device
from portable.op import Problem

SOURCES = ("_common.cl", "copy.cl", "argmax.cl")
__all__ = ["SOURCES", "compile", "configs", "why_not"]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    x, axis = problem["x"], problem.param("axis")
    if problem.results[0].size == 0:
        return constant(problem, [0])
    b = Builder(problem, device, vector=int(config.get("vector", 0)) or None)
    flat = axis is None or x.ndim == 0
    n = x.size if flat else x.shape[axis]
    inner = 1 if flat else math.prod(x.shape[axis + 1 :])
    outer = x.size // (n * inner)
    if inner > 1:
        tasks = -(-outer * -(-inner // b.vector) // b.local)
        b.step("argmax_columns", "argmax.cl", tasks, [b.dense("x"), b.out(), outer, n, inner])
        return b.build()
    rows = b.rows("x", x.ndim if flat else x.ndim - axis)
    parts = parts_of(device, outer, n)
    best, at = b.scratch(outer * parts * 8), b.scratch(outer * parts * 8)
    tasks = -(-outer * parts // b.local)
    stride = rows.stride
    b.step("argmax_rows", "argmax.cl", tasks, [rows.array, best, at, outer, n, stride, parts])
    b.step("argmax_parts", "argmax.cl", -(-outer // b.local), [best, at, b.out(), outer, parts])
    return b.build()
