"""Permuted axes, written out row-major."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.numpy._support import Array
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """A view by strides, copied once."""
    axes = problem.param("axes")

    def kernel(x: Array) -> Array:
        return np.array(x.transpose(axes), order="C")

    return kernel
