"""(x - mean) / sqrt(variance + eps) * weight + bias over the last axis, two-pass."""

from __future__ import annotations

from portable.backend import Config, Kernel
from portable.backends.triton import _norm, _target
from portable.backends.triton._norm import configs
from portable.backends.triton._plan import Plan, runner
from portable.backends.triton._support import refuse
from portable.backends.triton._target import Target
from portable.device import Device
from portable.op import Problem

__all__ = ["compile", "configs", "plan", "why_not"]


def why_not(problem: Problem, device: Device) -> list[str]:
    """Float dtypes only."""
    return refuse(problem, device)


def plan(problem: Problem, target: Target, config: Config) -> Plan:
    """The launches of a problem."""
    return _norm.plan(problem, target, config, center=True)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Builds nothing yet: Triton compiles at the first launch."""
    return runner(problem, plan(problem, _target.of(device), config))
