"""log_softmax along any axis; a row is read once and kept in registers where it fits."""

from __future__ import annotations

from portable.backend import Config, Kernel
from portable.backends.cuda import _softmax
from portable.backends.cuda._plan import compile_with
from portable.backends.cuda._runtime import Runtime
from portable.backends.cuda._softmax import configs, why_not
from portable.device import Device
from portable.op import Problem

__all__ = ["build", "compile", "configs", "why_not"]
SOURCES = ("_common.cuh", "_softmax.cu", "transpose.cu")


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build for a device."""
    return compile_with(build, problem, device, config)


def build(problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
    """The host side."""
    return _softmax.build(problem, config, runtime, aligned, log=True)
