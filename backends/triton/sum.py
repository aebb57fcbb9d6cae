"""Sums; rows too few for the device are cut into parts (always the same ones)."""

from __future__ import annotations

from portable.backend import Config, Kernel
from portable.backends.triton import _reduce, _target
from portable.backends.triton._plan import Plan, runner
from portable.backends.triton._reduce import configs, why_not
from portable.backends.triton._target import Target
from portable.device import Device
from portable.op import Problem

__all__ = ["compile", "configs", "plan", "why_not"]


def plan(problem: Problem, target: Target, config: Config) -> Plan:
    """The launches of a problem."""
    return _reduce.plan(problem, target, config, "sum")


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Builds nothing yet: Triton compiles at the first launch."""
    return runner(problem, plan(problem, _target.of(device), config))
