"""Axes in another order, written dense: through shared memory where rows and columns swap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.cuda._plan import (
    MAX_AXES,
    compile_with,
    copier,
    merged,
    strides,
    why_not_dtype,
)
from portable.backends.cuda._runtime import Runtime
from portable.device import Device
from portable.op import Problem, TensorSpec

SOURCES = ("_common.cuh", "transpose.cu")
_DTYPES = tuple(name for name, info in dtypes.DTYPES.items() if info.itemsize <= 8)


def why_not(problem: Problem, device: Device) -> list[str]:
    """Elements of more than 8 bytes, or too many axes."""
    reasons = why_not_dtype(problem, _DTYPES)
    axes = len(merged(_turned(problem).shape, [strides(_turned(problem))])[0])
    if axes > MAX_AXES:
        reasons.append(f"{axes} axes do not merge (limit {MAX_AXES})")
    return reasons


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build for a device."""
    return compile_with(build, problem, device, config)


def build(problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
    """The host side: one strided copy."""
    result = problem.results[0]
    copy = copier(runtime, _turned(problem))

    def kernel(x: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        copy(out, x)
        return out

    return kernel


def _turned(problem: Problem) -> TensorSpec:
    """The input's view in the result's axis order."""
    x, axes = problem.tensors[0], problem.param("axes")
    steps = strides(x)
    return TensorSpec(tuple(x.shape[i] for i in axes), x.dtype, tuple(steps[i] for i in axes))
