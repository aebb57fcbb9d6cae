"""x / sqrt(mean(x^2) + eps) * weight: squares summed in blocks, then the rows scaled."""

from __future__ import annotations

import numpy as np

from portable.backend import Config, Kernel
from portable.device import Device
from portable.op import Problem
from portable_iree import _mlir
from portable_iree._support import Array, load, nothing_to_tune, reasons

configs = nothing_to_tune
SOURCES = ("_mlir.py", "_build.py", "_runtime.py")


def why_not(problem: Problem, device: Device) -> list[str]:
    """Floats."""
    return reasons(problem, device)


def text(problem: Problem) -> str:
    """The module of a problem."""
    x, eps = problem["x"], float(problem.param("eps"))
    return _mlir.rms_norm(x.size // x.shape[-1], x.shape[-1], eps, problem.dtype)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """An absent weight counts as ones."""
    run, n = load(text(problem), device), problem["x"].shape[-1]
    ones = np.ones(n, problem.dtype)

    def kernel(x: Array, *weight: Array) -> Array:
        w = np.ascontiguousarray(weight[0]) if weight else ones
        return run(np.ascontiguousarray(x).reshape(-1, n), w).reshape(x.shape)

    return kernel
