"""cross_entropy: a loss per row, then their sum or mean."""

from __future__ import annotations

import math

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.opencl._launch import constant
from portable.backends.opencl._plan import Builder
from portable.backends.opencl._softmax import configs, why_not
from portable.backends.opencl.embedding import INDICES
from portable.device import Device
from portable.op import Problem

SOURCES = ("_common.cl", "copy.cl", "cross_entropy.cl")
__all__ = ["SOURCES", "compile", "configs", "why_not"]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    logits, reduction = problem["logits"], problem.param("reduction")
    if logits.size == 0:
        return constant(problem, [math.nan if reduction == "mean" else 0])
    b = Builder(problem, device, vector=int(config.get("vector", 0)) or None)
    n, classes = logits.shape
    ignore = problem.param("ignore_index")
    skip, has = np.int64(ignore or 0), np.int32(ignore is not None)
    rows, targets = b.rows("logits"), b.dense("targets")
    loss = b.scratch(n * 8)
    options = [f"-DINDEX={INDICES[problem['targets'].dtype]}"]
    arguments = [rows.array, targets, loss, n, classes, rows.stride, skip, has]
    b.step("losses", "cross_entropy.cl", n, arguments, options)
    how = np.int32(("none", "sum", "mean").index(reduction))
    tasks = -(-n // b.local) if reduction == "none" else 1
    b.step(
        "reduce_losses",
        "cross_entropy.cl",
        tasks,
        [loss, targets, b.out(), n, skip, has, how],
        options,
    )
    return b.build()
