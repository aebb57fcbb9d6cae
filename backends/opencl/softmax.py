"""softmax in one launch; see `softmax.cl`."""

from __future__ import annotations

from portable.backend import Config, Kernel
from portable.backends.opencl._softmax import compile_softmax, configs, why_not
from portable.device import Device
from portable.op import Problem

SOURCES = ("_common.cl", "softmax.cl")
__all__ = ["SOURCES", "compile", "configs", "why_not"]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    return compile_softmax(problem, device, config, log=False)
