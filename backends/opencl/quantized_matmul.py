"""quantized_matmul: int8 with exact sums, fp8 with float32 sums, scales by tensor, row or block."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.opencl import _gemm
from portable.backends.opencl._launch import constant
from portable.backends.opencl._plan import Builder, is_cpu, strides_of, why_not_memory
from portable.device import Device
from portable.op import Problem

FILES = ("_quantized.cl", "_panels.cl", "_micro.cl", "quantized.cl")
SOURCES = ("_common.cl", *FILES)
_KC = 256


def why_not(problem: Problem, device: Device) -> list[str]:
    """CPU devices; int8 and float8_e4m3fn."""
    reasons = []
    if problem.dtype not in ("int8", "float8_e4m3fn"):
        reasons.append(f"dtype is {problem.dtype} (takes int8, float8_e4m3fn)")
    if problem.results[0].dtype == "float64":
        reasons.append("out_dtype is float64 (takes float32, float16, bfloat16)")
    if not is_cpu(device):
        reasons.append(f"device is a {device.info.kind} (has a kernel for CPUs)")
    return reasons + why_not_memory(problem, device)


def _gemm_of(problem: Problem) -> _gemm.Gemm:
    return _gemm.describe(problem["a"], problem["b"])


def configs(problem: Problem, device: Device) -> list[Config]:
    """Register tile and cache blocks, as matmul."""
    g = _gemm_of(problem)
    if 0 in (g.m, g.n, g.k):
        return [{}]
    first = {**_gemm.packed_config(g, "float32", device), "kc": _KC}
    return [first, {**first, "nb": 2 * int(first["nb"])}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    if problem.results[0].size == 0 or problem["a"].size == 0:
        return constant(problem, [0])
    g = _gemm_of(problem)
    c = {name: int(v) for name, v in config.items() if name != "kind"}
    out = problem.results[0].dtype
    b = Builder(problem, device, dtype=out, vector=c["vector"])
    block = int(problem.param("block"))
    sa, sb = problem["scale_a"], problem["scale_b"]
    options = [f"-D{name.upper()}={c[name]}" for name in ("mr", "nv")] + [f"-DKC={_KC}"]
    if problem.dtype == "int8":
        options.append("-DINT8")
    if block:
        options.append("-DBLOCKED")
    sa_row, sa_block = _strides(sa.shape, strides_of(sa))
    sb_block, sb_col = _strides(sb.shape, strides_of(sb))
    width = block if block and sb.shape not in ((), (1, g.n)) else 1
    nr = c["nv"] * c["vector"]
    tiles = -(-g.m // c["mb"]) * -(-g.n // c["nb"])
    count = max(1, min(tiles, device.info.units))
    elements = c["mb"] * (_KC + c["vector"]) + _KC * nr + c["mr"] * nr + nr + c["mb"] * c["nb"]
    scratch, counter = b.scratch(count * elements * 4), b.scratch(64, zeroed=64)
    arrays = [b.operand(name) for name in ("a", "b", "scale_a", "scale_b")]
    shape = [g.m, g.n, g.k, g.a_row, g.a_col, g.b_row, g.b_col]
    scales = [sa_row, sa_block, sb_block, sb_col, width, block or g.k]
    tail: list[Any] = [np.int32(c["mb"]), np.int32(c["nb"])]
    arguments = [*arrays, b.out(), scratch, counter, *shape, *scales, *tail]
    b.step("quantized", FILES, count, arguments, options, per_unit=1)
    return b.build()


def _strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """Steps of a scale along both axes; 0 along an axis of one entry."""
    if not shape:
        return 0, 0
    first, second = (0 if n == 1 else s for n, s in zip(shape, strides, strict=True))
    return first, second
