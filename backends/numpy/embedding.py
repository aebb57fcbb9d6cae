"""Rows of a table by numpy.take."""

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
    """numpy.take along the first axis; an index outside of the table raises IndexError."""

    def kernel(table: Array, indices: Array) -> Array:
        if indices.size and indices.min() < 0:
            raise IndexError(f"embedding: index {indices.min()} is negative")
        return np.asarray(np.take(table, indices, axis=0))

    return kernel
