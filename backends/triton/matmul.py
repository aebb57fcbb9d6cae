"""a @ b by NumPy's rules: 1-D, 2-D, batched with broadcasting, any strides."""

from __future__ import annotations

from collections.abc import Sequence

from portable.backend import Config, Kernel
from portable.backends.triton import _gemm_configs, _gemm_plan, _target
from portable.backends.triton._plan import Plan, runner
from portable.backends.triton._support import FLOATS, refuse
from portable.backends.triton._target import Target
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Floats, and 8-bit integers (int32 sums cut to 8 bits, as NumPy wraps)."""
    return refuse(problem, device, (*FLOATS, "int8", "uint8"))


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Tiles, split K, a vector kernel and descriptors, ordered by an estimate."""
    product = _gemm_plan.matmul_product(problem)
    return _gemm_configs.configs(problem, product, _target.of(device))


def plan(problem: Problem, target: Target, config: Config) -> Plan:
    """The launches of a problem."""
    return _gemm_plan.plan(problem, _gemm_plan.matmul_product(problem), target, config)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Builds nothing yet: Triton compiles at the first launch."""
    return runner(problem, plan(problem, _target.of(device), config))
