"""Attention: scores, softmax and weighted sum on blocks of queries, in float32 (float64)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.numpy._support import Array, quiet, result_dtype, store, wide_dtype
from portable.device import Device
from portable.op import Problem

SCORE_BYTES = 4 << 20
"""Bytes of scores at a time: they are written and read several times, so they stay in cache."""


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """One batch and key/value head at a time, its query heads together."""
    dtype, compute = result_dtype(problem), wide_dtype(problem)
    b, h, s, _ = problem["q"].shape
    hk, t, dv = problem["v"].shape[1:]
    group = h // hk if hk else 0
    scale, causal = problem.param("scale"), problem.param("causal")
    step = max(SCORE_BYTES // (max(group * t, 1) * compute.itemsize), 1)

    def kernel(q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
        y = np.zeros((b, h, s, dv), dtype)
        if y.size == 0 or t == 0:
            return y
        full = None if mask is None else np.broadcast_to(mask, (b, h, s, t))
        for i, j in np.ndindex(b, hk):
            heads = slice(j * group, (j + 1) * group)
            keys = np.ascontiguousarray(k[i, j], compute).T
            values = np.ascontiguousarray(v[i, j], compute)
            clean = bool(np.isfinite(values).all())
            for start in range(0, s, step):
                rows = slice(start, min(start + step, s))
                # The last query of the block sees the most keys.
                seen = min(max(rows.stop + t - s, 0), t) if causal else t
                if seen == 0:
                    continue
                scores = _scores(q[i, heads, rows].astype(compute), keys[:, :seen], scale)
                if full is not None:
                    _apply_mask(scores, full[i, heads, rows, :seen])
                if causal:
                    _apply_causal(scores, start + t - s)
                _softmax(scores)
                weighted = np.matmul if clean else _matmul_special
                store(y[i, heads, rows], weighted(scores, values[:seen]))
        return y

    return quiet(kernel)


def _scores(q: Array, keys: Array, scale: float) -> Array:
    q *= scale
    group, rows, d = q.shape
    product: Array = np.matmul(q.reshape(group * rows, d), keys)
    return product.reshape(group, rows, keys.shape[1])


def _apply_mask(scores: Array, mask: Array) -> None:
    if mask.dtype == np.bool_:
        scores[~mask] = -np.inf
    else:
        scores += mask


def _apply_causal(scores: Array, offset: int) -> None:
    """Query r of the block sees keys up to offset + r."""
    _, rows, keys = scores.shape
    first = max(offset + 1, 0)
    hidden = np.arange(first, keys) > np.arange(rows)[:, None] + offset
    scores[:, :, first:][:, hidden] = -np.inf


def _softmax(scores: Array) -> None:
    top = scores.max(axis=-1, keepdims=True)
    top[np.isneginf(top)] = 0  # a row without keys: exp(-inf - 0) = 0
    scores -= top
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    scores /= total


def _matmul_special(weights: Array, values: Array) -> Any:
    """weights @ values where a weight of 0 hides NaN and infinities."""
    finite = np.isfinite(values)
    product = np.matmul(weights, np.where(finite, values, 0))
    used = (weights > 0) | np.isnan(weights)
    plus = np.matmul(used, np.isposinf(values))
    minus = np.matmul(used, np.isneginf(values))
    nan = np.matmul(used, np.isnan(values)) | (plus & minus)
    product[plus] = np.inf
    product[minus] = -np.inf
    product[nan] = np.nan
    return product
