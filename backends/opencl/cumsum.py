"""cumsum: rows scanned a vector at a time, other axes column by column."""

from __future__ import annotations

import math

from portable.backend import Config, Kernel
from portable.backends.opencl._launch import constant
from portable.backends.opencl._plan import Builder
from portable.backends.opencl._reduce import configs, why_not
from portable.device import Device
from portable.op import Problem

SOURCES = ("_common.cl", "copy.cl", "cumsum.cl")
__all__ = ["SOURCES", "compile", "configs", "why_not"]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    x, axis = problem["x"], problem.param("axis")
    if x.size == 0:
        return constant(problem, [0])
    b = Builder(problem, device, vector=int(config.get("vector", 0)) or None)
    n, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    outer = x.size // (n * inner)
    if inner == 1:
        rows = b.rows("x", x.ndim - axis)
        tasks = -(-outer // b.local)
        b.step("cumsum_rows", "cumsum.cl", tasks, [rows.array, b.out(), outer, n, rows.stride])
    else:
        tasks = -(-outer * -(-inner // b.vector) // b.local)
        b.step("cumsum_columns", "cumsum.cl", tasks, [b.dense("x"), b.out(), outer, n, inner])
    return b.build()
