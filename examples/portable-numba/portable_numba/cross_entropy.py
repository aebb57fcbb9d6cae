"""log sum exp minus the target's logit, a row per core, without a temporary of the logits' size."""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np

from portable.backend import Config, Kernel
from portable.device import Device
from portable.op import Problem
from portable_numba._compile import (
    Array,
    build,
    floats_only,
    prefer,
    read,
    thread_configs,
    write,
)
from portable_numba._exp import exp32

SOURCES = ("_compile.py", "_exp.py")


def why_not(problem: Problem, device: Device) -> list[str]:
    """Floats of 32 and 64 bits."""
    return floats_only(problem)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """All cores or one."""
    return thread_configs(problem)


def _losses64(x, targets, kept, losses):
    for i in numba.prange(x.shape[0]):
        if not kept[i]:
            losses[i] = 0
            continue
        top = x[i, 0]
        for k in range(x.shape[1]):
            top = x[i, k] if not x[i, k] <= top else top
        total = 0.0
        for k in range(x.shape[1]):
            total += np.exp(x[i, k] - top)
        losses[i] = np.log(total) - (x[i, targets[i]] - top)


def _losses32(x, targets, kept, losses):
    for i in numba.prange(x.shape[0]):
        if not kept[i]:
            losses[i] = 0
            continue
        top = x[i, 0]
        for k in range(x.shape[1]):
            top = x[i, k] if x[i, k] > top else top
        total = np.float32(0)
        for k in range(x.shape[1]):
            total += exp32(x[i, k] - top)
        losses[i] = np.log(total) - (x[i, targets[i]] - top)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Losses per row, then the reduction; a target outside of the classes raises."""
    dtype, classes = problem.dtype, problem["logits"].shape[1]
    reduction, ignore = problem.param("reduction"), problem.param("ignore_index")
    body = _losses32 if dtype == "float32" else _losses64
    types = (read(dtype, 2), read("int64", 1), read("bool", 1), write(dtype, 1))
    run = build(body, types, prefer(problem, config))

    def kernel(logits: Array, targets: Array) -> Array:
        kept = np.ones(len(logits), bool) if ignore is None else targets != ignore
        index = np.where(kept, targets, 0).astype(np.int64)
        if index.size and not (index.min() >= 0 and index.max() < classes):
            raise IndexError(f"cross_entropy: a target is outside of [0, {classes})")
        losses = np.empty(len(logits), logits.dtype)
        if logits.size:
            run(np.ascontiguousarray(logits), index, np.ascontiguousarray(kept), losses)
        if reduction == "none":
            return losses
        with np.errstate(all="ignore"):
            total = losses.sum(dtype=np.float64)
            total = total if reduction == "sum" else total / kept.sum()
        return np.asarray(total, logits.dtype)

    return kernel
