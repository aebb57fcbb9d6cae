"""C = A B by NumPy's rules; tensor cores for f16 and bf16, any strides without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.cuda import _gemm
from portable.backends.cuda._plan import (
    Step,
    compile_with,
    dense,
    target,
    why_not_dtype,
    why_not_layout,
)
from portable.backends.cuda._runtime import Runtime
from portable.device import Device
from portable.op import Problem, TensorSpec

SOURCES = (
    "_common.cuh",
    "_gemm_finish.cu",
    "_gemm_mma.cu",
    "_gemm_simt.cu",
    "_gemm_wide.cu",
    "_gemv.cu",
    "_mma.cuh",
    "transpose.cu",
)
_DTYPES = (*dtypes.FLOATS, *dtypes.INTEGERS, "bool")


def why_not(problem: Problem, device: Device) -> list[str]:
    """Other dtypes, or two different ones."""
    reasons = why_not_dtype(problem, _DTYPES) + why_not_layout(problem)
    kinds = {tensor.dtype for tensor in (*problem.tensors, *problem.results)}
    if not reasons and len(kinds) > 1:
        reasons.append(f"dtypes differ: {', '.join(sorted(kinds))} (takes one)")
    return reasons


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Kernel, tile and split, the likely best first."""
    return _gemm.configs(_product(problem)[0], target(device))


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build for a device."""
    return compile_with(build, problem, device, config)


def build(problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
    """The host side of the product."""
    product, specs = _product(problem)
    result = problem.results[0]
    steps = _packing(runtime, problem, specs)
    multiply = _gemm.build(product, config, runtime, aligned)

    def kernel(a: Any, b: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        multiply(out, steps[0](a), steps[1](b), out, out)
        return out

    return kernel


def _packing(runtime: Runtime, problem: Problem, specs: Sequence[TensorSpec]) -> list[Step]:
    """Copies for the tensors that are read packed."""
    return [
        dense(runtime, given) if packed != given else _same
        for given, packed in zip(problem.tensors, specs, strict=True)
    ]


def _same(array: Any) -> Any:
    return array


def _product(problem: Problem) -> tuple[_gemm.Product, list[TensorSpec]]:
    """The product, and the specs it reads: dense where neither matrix axis is adjacent."""
    specs = list(problem.tensors)
    batch = _batch(problem)
    views = [
        _gemm.view(specs[0], batch),
        _gemm.view(specs[1], batch, column=specs[1].ndim == 1),
    ]
    for i, seen in enumerate(views):
        if seen.adjacent is None:
            specs[i] = specs[i].dense()
            views[i] = _gemm.view(specs[i], batch)
    return _gemm.Product(
        problem.dtype, views[0], views[1], batch, tf32=problem.precision == "high"
    ), specs


def _batch(problem: Problem) -> tuple[int, ...]:
    """Broadcast batch extents: the result's leading axes."""
    matrix_axes = sum(tensor.ndim > 1 for tensor in problem.tensors)
    shape = problem.results[0].shape
    return shape[: len(shape) - matrix_axes]
