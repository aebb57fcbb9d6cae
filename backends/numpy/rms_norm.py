"""RMS norm, in place on blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.numpy._support import Array, normalized
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Blocks of rows."""
    eps = problem.param("eps")

    def rows(x: Array) -> None:
        scale_to_rms(x, eps)

    return normalized(problem, rows)


def scale_to_rms(x: Array, eps: float) -> None:
    """Divides rows by their root mean square, in place."""
    square = np.einsum("ij,ij->i", x, x) / max(x.shape[1], 1)
    x /= np.sqrt(square + eps)[:, None]
