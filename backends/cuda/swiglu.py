"""silu(gate) up on dense memory, 16 bytes an access."""

from __future__ import annotations

from portable.backend import Config, Kernel
from portable.backends.cuda import _elementwise
from portable.backends.cuda._elementwise import configs, why_not
from portable.backends.cuda._plan import compile_with
from portable.backends.cuda._runtime import Runtime
from portable.device import Device
from portable.op import Problem

__all__ = ["build", "compile", "configs", "why_not"]
SOURCES = ("_common.cuh", "_elementwise.cu", "transpose.cu")


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build for a device."""
    return compile_with(build, problem, device, config)


def build(problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
    """The host side."""
    return _elementwise.build(problem, runtime, aligned, _elementwise.SWIGLU)
