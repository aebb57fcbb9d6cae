"""layer_norm in one launch; see `norm.cl`."""

from __future__ import annotations

from portable.backend import Config, Kernel
from portable.backends.opencl._norm import SOURCES, compile_norm, configs, why_not
from portable.device import Device
from portable.op import Problem

__all__ = ["SOURCES", "compile", "configs", "why_not"]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    return compile_norm(problem, device, config, "-DLAYER")
