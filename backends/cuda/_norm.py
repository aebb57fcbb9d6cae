"""layer_norm, rms_norm and add_rms_norm: one kernel source, one host side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.cuda import _rows
from portable.backends.cuda._build import C_TYPES
from portable.backends.cuda._plan import Step, dense, target, vector, why_not_dtype, why_not_layout
from portable.backends.cuda._runtime import Runtime
from portable.device import Device
from portable.op import Problem

LAYER, RMS, ADD_RMS = 0, 1, 2


def why_not(problem: Problem, device: Device) -> list[str]:
    """Other dtypes."""
    return why_not_dtype(problem, dtypes.FLOATS) + why_not_layout(problem)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Threads of a row."""
    return _rows.configs(problem.tensors[0].shape[-1], problem.dtype, target(device))


def build(
    problem: Problem, config: Config, runtime: Runtime, aligned: bool, *, kind: int
) -> Kernel:
    """The host side of the three ops."""
    result, several = problem.results[0], len(problem.results) > 1
    if result.size == 0:

        def nothing(*arrays: Any) -> Any:
            empty = [runtime.empty(spec.shape, spec.dtype) for spec in problem.results]
            return tuple(empty) if several else empty[0]

        return nothing
    seen = _rows.rows(problem["x"])
    strided = seen.spec == problem["x"]
    if kind == ADD_RMS:  # both operands are read with one stride, or both packed
        other = _rows.rows(problem["residual"])
        if other.stride != seen.stride or other.spec != problem["residual"]:
            seen, strided = _rows.rows(problem["x"].dense()), False
    vec = vector(problem.dtype, seen.length, seen.stride, aligned=aligned)
    macros: dict[str, int | str] = {
        "T": C_TYPES[problem.dtype],
        "KIND": kind,
        "WEIGHT": int("weight" in problem.operands),
        "BIAS": int("bias" in problem.operands),
    }
    macros |= _rows.macros(seen.length, problem.dtype, config, vec)
    group, rows = int(config["group"]), int(config["rows"])
    launch = runtime.kernel("_norm.cu", "norm_rows", macros, group * rows)
    grid = (-(-seen.count // rows), 1, 1)
    steps: list[Step] = [
        (lambda array: array) if strided and name in ("x", "residual") else dense(runtime, spec)
        for name, spec in zip(problem.operands, problem.tensors, strict=True)
    ]
    places = [problem.position(name) for name in ("x", "residual", "weight", "bias")]
    sizes = (seen.count, seen.length, seen.stride, float(problem.param("eps")))

    def kernel(*arrays: Any) -> Any:
        y = runtime.empty(result.shape, result.dtype)
        s = runtime.empty(result.shape, result.dtype) if several else y
        read = [step(array) for step, array in zip(steps, arrays, strict=True)]
        launch(grid, y, s, *(y if place is None else read[place] for place in places), *sizes)
        return (y, s) if several else y

    return kernel
