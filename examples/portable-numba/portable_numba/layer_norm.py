"""(x - mean) / sqrt(variance + eps) * weight + bias, a row per core."""

from __future__ import annotations

from collections.abc import Sequence

from portable.backend import Config, Kernel
from portable.device import Device
from portable.op import Problem
from portable_numba import _norm
from portable_numba._compile import floats_only, thread_configs

SOURCES = ("_compile.py", "_norm.py")


def why_not(problem: Problem, device: Device) -> list[str]:
    """Floats of 32 and 64 bits."""
    return floats_only(problem)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """All cores or one."""
    return thread_configs(problem)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Two passes over each row."""
    return _norm.kernel(problem, config, _norm.layer)
