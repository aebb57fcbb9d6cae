"""linalg.softmax on rows along the axis."""

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
    x, n = problem["x"], problem["x"].shape[problem.param("axis")]
    return _mlir.softmax(x.size // n, n, problem.dtype)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Another axis than the last is moved there and back."""
    run, axis = load(text(problem), device), problem.param("axis")

    def kernel(x: Array) -> Array:
        last = np.moveaxis(x, axis, -1)
        y = run(np.ascontiguousarray(last).reshape(-1, last.shape[-1]))
        return np.ascontiguousarray(np.moveaxis(y.reshape(last.shape), -1, axis))

    return kernel
