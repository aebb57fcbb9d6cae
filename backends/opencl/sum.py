"""sum over any axes; see `reduce.cl`."""

from __future__ import annotations

from portable.backend import Config, Kernel
from portable.backends.opencl._reduce import SOURCES, compile_reduction, configs, why_not
from portable.device import Device
from portable.op import Problem

__all__ = ["SOURCES", "compile", "configs", "why_not"]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    return compile_reduction(problem, device, config)
