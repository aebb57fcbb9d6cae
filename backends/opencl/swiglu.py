"""swiglu: silu(gate) * up in one pass."""

from __future__ import annotations

from portable.backend import Config, Kernel
from portable.backends.opencl._pointwise import SOURCES, compile_pointwise, configs, why_not
from portable.device import Device
from portable.op import Problem

__all__ = ["SOURCES", "compile", "configs", "why_not"]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    return compile_pointwise(problem, device, config, ("gate", "up"), "-DGATED")
