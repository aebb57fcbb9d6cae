"""layer_norm, rms_norm and add_rms_norm share one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.opencl._launch import constant
from portable.backends.opencl._plan import Builder, too_many_axes, why_not_float
from portable.backends.opencl._softmax import configs
from portable.device import Device
from portable.op import Problem

SOURCES = ("_common.cl", "norm.cl")
__all__ = ["SOURCES", "compile_norm", "configs", "why_not"]


def why_not(problem: Problem, device: Device) -> list[str]:
    """Dtype and number of strided axes."""
    reasons = why_not_float(problem, device)
    return reasons or [r for t in problem.tensors for r in too_many_axes(t)]


def compile_norm(problem: Problem, device: Device, config: Config, *options: str) -> Kernel:
    """Rows of the last axis; weight and bias where present."""
    x = problem["x"]
    if x.size == 0:
        return constant(problem, [0] * len(problem.results))
    b = Builder(problem, device, vector=int(config.get("vector", 0)) or None)
    n = x.shape[-1]
    rows = b.rows("x")
    arguments: list[Any] = [rows.array, rows.stride]
    flags = list(options)
    if "residual" in problem.operands:
        other = b.rows("residual")
        arguments += [other.array, other.stride, b.out(1)]
        flags.append("-DADD")
    for name in ("weight", "bias"):
        if name in problem.operands:
            arguments.append(b.dense(name))
            flags.append(f"-D{name.upper()}")
    eps = np.float64(problem.param("eps"))
    count = x.size // n
    b.step(
        "norm_rows",
        "norm.cl",
        count,
        [*arguments, b.out(), count, n, eps],
        [*flags, *b.streaming()],
    )
    return b.build()
