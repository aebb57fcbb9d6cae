"""linalg.batch_matmul; batch axes are broadcast before."""

from __future__ import annotations

import math

import numpy as np

from portable.backend import Config, Kernel
from portable.device import Device
from portable.op import Problem
from portable_iree import _mlir
from portable_iree._support import Array, load, nothing_to_tune, reasons

configs = nothing_to_tune
SOURCES = ("_mlir.py", "_build.py", "_runtime.py")


def why_not(problem: Problem, device: Device) -> list[str]:
    """Floats; float16 on the CPU."""
    return reasons(problem, device, half=True)


def text(problem: Problem) -> str:
    """The module of a problem."""
    a, b = problem.tensors
    batch = math.prod(_batch(problem))
    m = a.shape[-2] if a.ndim > 1 else 1
    n = b.shape[-1] if b.ndim > 1 else 1
    return _mlir.matmul(batch, m, a.shape[-1], n, problem.dtype)


def _batch(problem: Problem) -> tuple[int, ...]:
    a, b = problem.tensors
    return np.broadcast_shapes(a.shape[:-2], b.shape[:-2])


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """(batch, m, k) @ (batch, k, n), reshaped to NumPy's result."""
    run, batch, shape = load(text(problem), device), _batch(problem), problem.results[0].shape

    def kernel(a: Array, b: Array) -> Array:
        left = a[None, :] if a.ndim == 1 else a
        right = b[:, None] if b.ndim == 1 else b
        stacks = [np.broadcast_to(x, batch + x.shape[-2:]) for x in (left, right)]
        three = [np.ascontiguousarray(x).reshape(-1, *x.shape[-2:]) for x in stacks]
        return run(*three).reshape(shape)

    return kernel
