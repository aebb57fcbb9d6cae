"""softmax and log_softmax share their kernels."""

from __future__ import annotations

import math
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.opencl._launch import constant
from portable.backends.opencl._plan import Builder, is_cpu, too_many_axes, why_not_float
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Dtype and number of strided axes."""
    return why_not_float(problem, device) or too_many_axes(problem.tensors[0])


def compile_softmax(problem: Problem, device: Device, config: Config, *, log: bool) -> Kernel:
    """Rows when the axis is the last one that counts, columns otherwise."""
    x = problem["x"]
    if x.size == 0:
        return constant(problem, [0])
    axis: int = problem.param("axis") if x.ndim else 0
    n = x.shape[axis] if x.ndim else 1
    inner = math.prod(x.shape[axis + 1 :])
    outer = x.size // (n * inner)
    b = Builder(problem, device, vector=int(config.get("vector", 0)) or None)
    options = ["-DLOG"] if log else []
    if inner == 1:
        if x.dtype in ("float32", "float64") and not log:
            options.append("-DKEEP")  # exponentials wait in the result; halves would be rounded
        rows = b.rows("x", x.ndim - axis)
        b.step(
            "softmax_rows",
            "softmax.cl",
            outer,
            [rows.array, b.out(), outer, n, rows.stride],
            options,
        )
    else:
        tasks = -(-outer * -(-inner // b.vector) // b.local)
        arguments: list[Any] = [b.dense("x"), b.out(), outer, n, inner]
        b.step("softmax_columns", "softmax.cl", tasks, arguments, options)
    return b.build()


def configs(problem: Problem, device: Device) -> list[Config]:
    """Vector width: the widest register, or half of it."""
    from portable.backends.opencl._plan import vector_width

    widest = vector_width(device, problem.dtype)
    narrower = [{"vector": widest // 2}] if is_cpu(device) and widest > 4 else []
    return [{"vector": widest}, *narrower]
