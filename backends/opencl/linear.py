"""linear: the matrix product with bias, activation and residual applied before the store."""

from __future__ import annotations

import math
from dataclasses import replace

from portable.backend import Config, Kernel
from portable.backends.opencl import _gemm
from portable.backends.opencl._launch import constant
from portable.backends.opencl._plan import Builder, too_many_axes, why_not_float
from portable.device import Device
from portable.op import Problem

SOURCES = (
    "_common.cl", "copy.cl", *_gemm.FILES, "_few_rows.cl", "gemv.cl", "skinny.cl", "tiled.cl",
)  # fmt: skip


def why_not(problem: Problem, device: Device) -> list[str]:
    """Dtype and number of strided axes."""
    reasons = why_not_float(problem, device)
    if problem["w"].shape[0] == 0:
        reasons.append("k is 0 (takes at least 1)")
    return reasons or [r for t in problem.tensors for r in too_many_axes(t)]


def configs(problem: Problem, device: Device) -> list[Config]:
    """As matmul."""
    g = _gemm.describe(problem["x"].dense(), problem["w"])
    return _gemm.configs(g, problem.dtype, device)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    x, w = problem["x"], problem["w"]
    if problem.results[0].size == 0:
        return constant(problem, [0])
    b = Builder(problem, device, vector=int(config.get("vector", 0)) or None)
    g = _gemm.describe(x, w)
    left = b.operand("x")
    if g.batch:
        left = b.dense("x")
        g = _gemm.describe(x.dense(), w)
    m = math.prod(x.shape[:-1])
    bias = b.dense("bias") if "bias" in problem.operands else None
    residual, stride = None, 0
    if "residual" in problem.operands:
        rows = b.rows("residual")
        residual, stride = rows.array, rows.stride
    epilogue = _gemm.Epilogue(bias, residual, stride, problem.param("activation"))
    assert g.m == m
    _gemm.add_gemm(b, replace(g, batch=()), left, b.operand("w"), b.out(), config, epilogue)
    return b.build()
