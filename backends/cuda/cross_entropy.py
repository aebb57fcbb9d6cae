"""Cross entropy of class indices: the logits are read once (running maximum and sum)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.cuda import _rows
from portable.backends.cuda._build import C_TYPES
from portable.backends.cuda._plan import (
    compile_with,
    dense,
    target,
    vector,
    why_not_dtype,
    why_not_layout,
)
from portable.backends.cuda._runtime import Runtime
from portable.device import Device
from portable.op import Problem

SOURCES = ("_common.cuh", "cross_entropy.cu", "transpose.cu")
_REDUCTIONS = {"none": 0, "sum": 1, "mean": 2}


def why_not(problem: Problem, device: Device) -> list[str]:
    """Other dtypes."""
    return why_not_dtype(problem, dtypes.FLOATS) + why_not_layout(problem)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Threads of a row."""
    return _rows.configs(problem["logits"].shape[1], problem.dtype, target(device))


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build for a device."""
    return compile_with(build, problem, device, config)


def build(problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
    """The host side: losses of the rows, then (sum, mean) one block that adds them."""
    logits, targets = problem["logits"], problem["targets"]
    result, reduction = problem.results[0], _REDUCTIONS[problem.param("reduction")]
    seen = _rows.rows(logits)
    ignored = problem.param("ignore_index")
    vec = vector(logits.dtype, seen.length, seen.stride, aligned=aligned)
    group, rows = int(config["group"]), int(config["rows"])
    macros: dict[str, int | str] = {
        "T": C_TYPES[logits.dtype], "I": C_TYPES[targets.dtype], "IGNORE": int(ignored is not None),
        "REDUCE": reduction,
    }  # fmt: skip
    if reduction:
        add = runtime.kernel("cross_entropy.cu", "cross_entropy_reduce", macros, 1024)
    macros = macros | {"GROUP": group, "ROWS": rows, "VEC": vec}
    launch = runtime.kernel("cross_entropy.cu", "cross_entropy_rows", macros, group * rows)
    pack = dense(runtime, logits) if seen.spec != logits else None
    pack_targets = dense(runtime, targets)
    skip = int(ignored or 0)

    def kernel(x: Any, where: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        read, index = pack(x) if pack else x, pack_targets(where)
        losses = (
            runtime.empty((seen.count,), dtypes.accumulator(logits.dtype)) if reduction else out
        )
        if seen.count:
            grid = (-(-seen.count // rows), 1, 1)
            launch(grid, out, losses, read, index, seen.count, seen.length, seen.stride, skip)
        if reduction:
            add((1, 1, 1), out, losses, index, seen.count, skip)
        return out

    return kernel
