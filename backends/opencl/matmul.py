"""matmul: packed, register-blocked product on CPUs, tiles in local memory on GPUs."""

from __future__ import annotations

from portable.backend import Config, Kernel
from portable.backends.opencl import _gemm
from portable.backends.opencl._launch import constant
from portable.backends.opencl._plan import Builder, why_not_float
from portable.device import Device
from portable.op import Problem

SOURCES = (
    "_common.cl", "copy.cl", *_gemm.FILES, "_few_rows.cl", "gemv.cl", "skinny.cl", "tiled.cl",
)  # fmt: skip


def why_not(problem: Problem, device: Device) -> list[str]:
    """Floats only; integers have no fast path here."""
    return why_not_float(problem, device) or _gemm.why_not_shape(problem, "a", "b")


def configs(problem: Problem, device: Device) -> list[Config]:
    """Register tile (mr x nv vectors), cache blocks (mb, nb, kc)."""
    return _gemm.configs(_gemm.describe(problem["a"], problem["b"]), problem.dtype, device)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    if problem.results[0].size == 0 or problem["a"].size == 0:
        return constant(problem, [0])
    g = _gemm.describe(problem["a"], problem["b"])
    b = Builder(problem, device, vector=int(config.get("vector", 0)) or None)
    _gemm.add_gemm(b, g, b.operand("a"), b.operand("b"), b.out(), config, _gemm.Epilogue())
    return b.build()
