"""Rows of a table, several at a time. Elements are only moved, so that every dtype is taken."""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np

from portable.backend import Config, Kernel
from portable.device import Device
from portable.op import Problem
from portable_numba._compile import SMALL, Array, build, prefer, read, write

SOURCES = ("_compile.py",)


def why_not(problem: Problem, device: Device) -> list[str]:
    """Elements of 1, 2, 4 or 8 bytes."""
    size = problem["table"].itemsize
    return [] if size in (1, 2, 4, 8) else [f"elements have {size} bytes (takes 1, 2, 4, 8)"]


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """All cores or one, by the size of the result."""
    both: list[Config] = [{"threads": "all"}, {"threads": "one"}]
    return both if problem.results[0].size >= SMALL else both[::-1]


def _take(table, indices, y):
    for i in numba.prange(indices.shape[0]):
        row = indices[i]
        for k in range(table.shape[1]):
            y[i, k] = table[row, k]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """As unsigned integers of the elements' size; an index outside of the table raises."""
    table, shape = problem["table"], problem.results[0].shape
    bits = np.dtype(f"u{table.itemsize}")
    run = build(_take, (read(bits, 2), read("int64", 1), write(bits, 2)), prefer(problem, config))
    count = table.shape[0]

    def kernel(table: Array, indices: Array) -> Array:
        y = np.empty(shape, table.dtype)
        flat = np.ascontiguousarray(indices, np.int64).reshape(-1)
        if flat.size and not (flat.min() >= 0 and flat.max() < count):
            raise IndexError(f"embedding: an index is outside of [0, {count})")
        if y.size:
            source = np.ascontiguousarray(table).view(bits)
            run(source, flat, y.view(bits).reshape(len(flat), -1))
        return y

    return kernel
