"""Sums: pairwise along contiguous rows; half types accumulate in float32."""

from __future__ import annotations

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
    """numpy.add.reduce in the accumulator's dtype."""
    return reduction(problem, np.add)
