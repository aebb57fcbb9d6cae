"""act(x w + bias) + residual in one kernel: the epilogue works on the sums in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.cuda import _gemm
from portable.backends.cuda._plan import (
    compile_with,
    dense,
    merged,
    strides,
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


def why_not(problem: Problem, device: Device) -> list[str]:
    """Other dtypes."""
    return why_not_dtype(problem, dtypes.FLOATS) + why_not_layout(problem)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Kernel, tile and split, the likely best first."""
    return _gemm.configs(_product(problem)[0], target(device))


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build for a device."""
    return compile_with(build, problem, device, config)


def build(problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
    """The host side: x and w may be strided, bias and residual are read dense."""
    product, specs = _product(problem)
    result = problem.results[0]
    steps = [
        dense(runtime, given) if packed != given else None
        for given, packed in zip(problem.tensors, specs, strict=True)
    ]
    bias, residual = problem.position("bias"), problem.position("residual")
    multiply = _gemm.build(product, config, runtime, aligned)

    def kernel(*arrays: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        packed = [step(x) if step else x for step, x in zip(steps, arrays, strict=True)]
        multiply(
            out,
            packed[0],
            packed[1],
            out if bias is None else packed[bias],
            out if residual is None else packed[residual],
        )
        return out

    return kernel


def _product(problem: Problem) -> tuple[_gemm.Product, list[TensorSpec]]:
    """The product, and the specs it reads; the leading axes of x are one axis of rows."""
    specs = [
        spec if name in ("x", "w") else spec.dense()
        for name, spec in zip(problem.operands, problem.tensors, strict=True)
    ]
    rows = _rows(specs[0])
    if rows is None or rows.adjacent is None:
        specs[0] = specs[0].dense()
        rows = _rows(specs[0])
    assert rows is not None  # a dense tensor's rows are one axis
    weights = _gemm.view(specs[1])
    if weights.adjacent is None:
        specs[1] = specs[1].dense()
        weights = _gemm.view(specs[1])
    product = _gemm.Product(
        problem.dtype,
        rows,
        weights,
        activation=problem.param("activation"),
        bias="bias" in problem.operands,
        residual="residual" in problem.operands,
        tf32=problem.precision == "high",
    )
    return product, specs


def _rows(spec: TensorSpec) -> _gemm.View | None:
    """x as (rows, k), or None when its leading axes do not merge into one."""
    steps = strides(spec)
    count = math.prod(spec.shape[:-1])
    extents, (rows,) = merged(spec.shape[:-1], [steps[:-1]])
    if len(extents) > 1 and count:
        return None
    return _gemm.View((count, spec.shape[-1]), (rows[0] if rows else 0, steps[-1]))
