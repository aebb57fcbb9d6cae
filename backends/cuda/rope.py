"""Rotary embedding: a row's pairs side by side, tables read in place however they broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.cuda._build import C_TYPES
from portable.backends.cuda._plan import (
    THREADS,
    Step,
    blocks,
    compile_with,
    dense,
    merged,
    strides,
    why_not_dtype,
    why_not_layout,
)
from portable.backends.cuda._runtime import Runtime
from portable.device import Device
from portable.op import Problem, TensorSpec

SOURCES = ("_common.cuh", "rope.cu", "transpose.cu")
_AXES = 4


def why_not(problem: Problem, device: Device) -> list[str]:
    """Other dtypes, or too many broadcast axes."""
    reasons = why_not_dtype(problem, dtypes.FLOATS) + why_not_layout(problem)
    axes = len(_lead(problem, problem.tensors)[0])
    if not reasons and axes > _AXES:
        reasons.append(f"x and the tables have {axes} axes that do not merge (limit {_AXES})")
    return reasons


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune: 16 bytes an access."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build for a device."""
    return compile_with(build, problem, device, config)


def build(problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
    """The host side. Tensors whose last axis is not adjacent are packed first."""
    result = problem.results[0]
    half = result.shape[-1] // 2
    if result.size == 0:
        return lambda *arrays: runtime.empty(result.shape, result.dtype)
    specs = [spec if _adjacent(spec) else spec.dense() for spec in problem.tensors]
    steps: list[Step] = [
        (lambda array: array) if read == given else dense(runtime, given)
        for read, given in zip(specs, problem.tensors, strict=True)
    ]
    extents, walks = _lead(problem, specs)
    missing = _AXES - len(extents)
    extents = [1] * missing + extents
    lead = [step for walk in walks for step in [0] * missing + walk]
    interleaved = bool(problem.param("interleaved"))
    pairs = _pairs(problem, half, lead, aligned, interleaved)
    macros: dict[str, int | str] = {
        "T": C_TYPES[problem.dtype],
        "C": C_TYPES[specs[1].dtype],
        "INTERLEAVED": int(interleaved),
        "PAIRS": pairs,
    }
    launch = runtime.kernel("rope.cu", "rope", macros, THREADS)
    total = math.prod(extents) * (half // pairs)

    def kernel(*arrays: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        read = [step(array) for step, array in zip(steps, arrays, strict=True)]
        launch((blocks(total), 1, 1), out, *read, total, half, *extents[1:], *lead)
        return out

    return kernel


def _adjacent(spec: TensorSpec) -> bool:
    return strides(spec)[-1] == 1 or spec.shape[-1] == 1


def _lead(problem: Problem, specs: Sequence[TensorSpec]) -> tuple[list[int], list[list[int]]]:
    """The leading axes of x, merged, with the strides of x and of the two tables over them."""
    shape = specs[0].shape[:-1]
    walks = []
    for spec in specs:
        steps = strides(spec)[:-1]
        own = [
            0 if extent == 1 else step for extent, step in zip(spec.shape[:-1], steps, strict=True)
        ]
        walks.append([0] * (len(shape) - len(own)) + own)
    return merged(shape, walks)


def _pairs(
    problem: Problem, half: int, lead: Sequence[int], aligned: bool, interleaved: bool
) -> int:
    """Pairs of a thread: 16 bytes of x, if every row of every tensor starts on 16 bytes."""
    wide = 16 // problem.tensors[0].itemsize
    pairs = wide // 2 if interleaved and wide > 2 else wide
    if not aligned or half % wide or any(step % wide for step in lead):
        return 1
    return pairs
