"""Means: a sum in the accumulator's dtype, then one division."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.numpy._support import reduction
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """numpy.add.reduce in the accumulator's dtype, divided by the count."""
    x = problem["x"]
    count = math.prod(x.shape[i] for i in problem.param("axis"))
    return reduction(problem, np.add, divide_by=count)
