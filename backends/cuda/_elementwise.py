"""gelu and swiglu: one kernel source, one host side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.cuda._build import C_TYPES
from portable.backends.cuda._plan import (
    THREADS,
    blocks,
    dense,
    vector,
    why_not_dtype,
    why_not_layout,
)
from portable.backends.cuda._runtime import Runtime
from portable.device import Device
from portable.op import Problem

GELU, GELU_TANH, SWIGLU = 0, 1, 2


def why_not(problem: Problem, device: Device) -> list[str]:
    """Other dtypes."""
    return why_not_dtype(problem, dtypes.FLOATS) + why_not_layout(problem)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune: 16 bytes an access."""
    return [{}]


def build(problem: Problem, runtime: Runtime, aligned: bool, function: int) -> Kernel:
    """The host side. Inputs that are not dense are packed first."""
    result = problem.results[0]
    total = result.size
    if total == 0:
        return lambda *arrays: runtime.empty(result.shape, result.dtype)
    vec = vector(problem.dtype, aligned=aligned)
    macros: dict[str, int | str] = {"T": C_TYPES[problem.dtype], "FUNCTION": function, "VEC": vec}
    launch = runtime.kernel("_elementwise.cu", "elementwise", macros, THREADS)
    steps = [dense(runtime, spec) for spec in problem.tensors]
    grid = (blocks(-(-total // vec)), 1, 1)

    def kernel(*arrays: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        read = [step(array) for step, array in zip(steps, arrays, strict=True)]
        launch(grid, out, read[0], read[-1], total)
        return out

    return kernel
