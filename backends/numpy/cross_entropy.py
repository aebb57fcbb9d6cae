"""log sum exp minus the target's logit, on blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.numpy._support import Array, quiet, result_dtype, row_blocks, wide_dtype
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Losses per row in the compute dtype, then the reduction."""
    dtype, compute = result_dtype(problem), wide_dtype(problem)
    reduction, ignore = problem.param("reduction"), problem.param("ignore_index")

    def kernel(logits: Array, targets: Array) -> Array:
        losses = np.empty(len(logits), compute)
        kept = np.ones(len(logits), bool) if ignore is None else targets != ignore
        index = np.where(kept, targets, 0).astype(np.int64)
        if index.size and not (index.min() >= 0 and index.max() < logits.shape[1]):
            raise IndexError(f"cross_entropy: a target is outside of [0, {logits.shape[1]})")
        rows = [logits, losses, index] if logits.size else []
        for block, out, target in row_blocks(rows, compute.itemsize):
            wide = block.astype(compute)
            wide -= wide.max(axis=1, keepdims=True)
            picked = np.take_along_axis(wide, target[:, None], 1)[:, 0]
            np.log(np.exp(wide, out=wide).sum(axis=1), out=out)
            out -= picked
        losses[~kept] = 0
        if reduction == "none":
            return losses.astype(dtype, copy=False)
        total = losses.sum()
        return np.asarray(total if reduction == "sum" else total / kept.sum(), dtype)

    return quiet(kernel)
