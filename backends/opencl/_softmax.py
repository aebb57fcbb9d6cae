"""softmax and log_softmax share their kernels."""

from __future__ import annotations

import math
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.opencl._launch import constant
from portable.backends.opencl._plan import Builder, groups, is_cpu, too_many_axes, why_not_float
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
        rows = b.rows("x", x.ndim - axis)
        arguments: list[Any] = [rows.array, b.out(), outer, n, rows.stride]
        if is_cpu(device) and not log:
            options.append("-DKEEP")
            span = -(-n // 64) * 64
            size = 8 if b.dtype == "float64" else 4
            arguments += [b.scratch(groups(device, outer) * span * size), span]
        b.step("softmax_rows", "softmax.cl", outer, arguments, [*options, *b.streaming()])
    else:
        tasks = -(-outer * -(-inner // b.vector) // b.local)
        arguments = [b.dense("x"), b.out(), outer, n, inner]
        b.step("softmax_columns", "softmax.cl", tasks, arguments, options)
    return b.build()


def configs(problem: Problem, device: Device) -> list[Config]:
    """Vector width: the widest register, or half of it."""
    from portable.backends.opencl._plan import vector_width

    widest = vector_width(device, problem.dtype)
    narrower = [{"vector": widest // 2}] if is_cpu(device) and widest > 4 else []
    return [{"vector": widest}, *narrower]
