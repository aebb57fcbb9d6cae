"""gate / (1 + exp(-gate)) * up, element by element."""

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
    return _mlir.swiglu(problem["gate"].size, problem.dtype)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Flattened."""
    run = load(text(problem), device)

    def kernel(gate: Array, up: Array) -> Array:
        flat = [np.ascontiguousarray(x).reshape(-1) for x in (gate, up)]
        return run(*flat).reshape(gate.shape)

    return kernel
