"""Deliberately wrong implementations, each with the check that must catch it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fakes import Fake, right_matmul


@dataclass(frozen=True)
class Wrong:
    """What is wrong, in which op, which conformance check must say so first, and at which level."""

    name: str
    op: str
    implementation: Any
    check: str
    level: str = "core"


def _softmax(x, axis):
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        e = np.exp(wide - wide.max(axis, keepdims=True, initial=-np.inf))
        return (e / e.sum(axis, keepdims=True)).astype(x.dtype)


def low_precision(problem, a, b):
    """Rounds its inputs to bfloat16 first, as a matrix unit asked for too little would."""
    import ml_dtypes

    low = ml_dtypes.bfloat16
    return right_matmul(problem, a.astype(low).astype(a.dtype), b.astype(low).astype(b.dtype))


def half_accumulator(problem, a, b):
    """Accumulates in the input's type, a few columns at a time."""
    y = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]),
                 a.dtype)  # fmt: skip
    for k in range(0, a.shape[-1], 4):
        y = (y + right_matmul(problem, a[..., k : k + 4], b[..., k : k + 4, :])).astype(a.dtype)
    return y


def unwritten_tail(problem, a, b):
    """Computes whole tiles of 16 columns and forgets the rest."""
    y = np.empty(problem.results[0].shape, a.dtype)
    whole = y.shape[-1] // 16 * 16
    y[..., :whole] = right_matmul(problem, a, b)[..., :whole]
    return y


def wrong_axis(problem, x):
    """Normalises over the first axis whatever was asked for."""
    return _softmax(x, 0) if x.ndim else x


def ignored_strides(problem, a, b):
    """Reads the memory of b as if it were row-major."""
    base = b
    if b.strides != tuple(np.empty(b.shape, b.dtype).strides) and b.size:
        flat = np.lib.stride_tricks.as_strided(
            b, (b.size,), (b.itemsize,)
        ) if min(b.strides) > 0 else b.reshape(-1)[::-1]  # fmt: skip
        base = flat.reshape(b.shape)
    return right_matmul(problem, a, base)


class CachedOutput:
    """Remembers the first result for a shape and hands it out for other data."""

    def __init__(self):
        self.seen = {}

    def __call__(self, problem, a, b):
        if problem not in self.seen:
            self.seen[problem] = right_matmul(problem, a, b)
        return self.seen[problem].copy()


def dropped_last_k(problem, a, b):
    """Stops one element short of k when k is not a multiple of 4."""
    k = a.shape[-1]
    stop = k - 1 if k % 4 and k > 1 else k
    return right_matmul(problem, a[..., :stop], b[..., :stop, :] if b.ndim > 1 else b[:stop])


def writes_its_input(problem, a, b):
    """Uses an input as scratch memory."""
    y = right_matmul(problem, a, b)
    if a.flags.writeable and a.size:
        a[...] = 0
    return y


def random_bits(problem, a, b):
    """Adds noise inside of the bound: a reduction in no fixed order."""
    y = right_matmul(problem, a, b)
    noise = np.random.default_rng().integers(-1, 2, y.shape)
    return np.nextafter(y, y + noise.astype(y.dtype)) if y.dtype.itemsize > 2 else y


def naive_softmax(problem, x):
    """Does not subtract the maximum: overflows."""
    axis = problem.param("axis")
    with np.errstate(all="ignore"):
        e = np.exp(x.astype(np.float32))
        return (e / e.sum(axis, keepdims=True)).astype(x.dtype)


def no_epsilon(problem, x, *rest):
    """rms_norm without eps: zero rows become NaN."""
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        y = wide / np.sqrt(np.mean(wide * wide, -1, keepdims=True))
    if rest:
        y = y * rest[0].astype(np.float64)
    return y.astype(x.dtype)


def one_pass_variance(problem, x, *rest):
    """layer_norm by E[x^2] - E[x]^2 in float32: cancels when the mean is large."""
    wide = x.astype(np.float32)
    mean = wide.mean(-1, keepdims=True)
    with np.errstate(all="ignore"):
        variance = np.maximum((wide * wide).mean(-1, keepdims=True) - mean * mean, 0)
        y = (wide - mean) / np.sqrt(variance + np.float32(problem.param("eps")))
    for name, value in zip(problem.operands[1:], rest, strict=True):
        y = y * value.astype(np.float32) if name == "weight" else y + value.astype(np.float32)
    return y.astype(x.dtype)


def wrong_dtype(problem, a, b):
    """Returns float64 whatever came in."""
    return right_matmul(problem, a, b).astype(np.float64)


def swallows_nan(problem, a, b):
    """Cleans NaN and infinity away."""
    return np.asarray(np.nan_to_num(right_matmul(problem, a, b)))


def raises(problem, a, b):
    """Fails at run time on tall problems."""
    if a.ndim > 1 and a.shape[-2] > 100:
        raise RuntimeError("grid too large")
    return right_matmul(problem, a, b)


def causal_to_the_start(problem, q, k, v, *mask):
    """Aligns a causal mask to the first key instead of the last."""
    wide = [x.astype(np.float64) for x in (q, k, v)]
    group = q.shape[1] // k.shape[1]
    q64, k64, v64 = wide[0], *(np.repeat(x, group, 1) for x in wide[1:])
    scores = q64 @ k64.swapaxes(-1, -2) * problem.param("scale")
    if mask:
        scores = (
            np.where(mask[0], scores, -np.inf)
            if mask[0].dtype == bool
            else (scores + mask[0].astype(np.float64))
        )
    if problem.param("causal"):
        s, t = scores.shape[-2:]
        scores = np.where(np.tri(s, t, dtype=bool), scores, -np.inf)
    with np.errstate(all="ignore"):
        e = np.exp(scores - np.maximum(scores.max(-1, keepdims=True, initial=-1e300), -1e300))
        total = e.sum(-1, keepdims=True)
        p = np.where(total > 0, e / total, 0)
    return (p @ v64).astype(q.dtype)


def one_column(problem, a, b):
    """Right but for one column of a wide result, which is read from an unset register."""
    y = right_matmul(problem, a, b)
    if y.ndim > 1 and y.shape[-1] > 200:
        y[..., -1] = 0
    return y


WRONG = [
    Wrong("low precision", "matmul", Fake(low_precision), "bound"),
    Wrong("half accumulator", "matmul", Fake(half_accumulator), "bound"),
    Wrong("unwritten tail", "matmul", Fake(unwritten_tail), "unwritten"),
    Wrong("wrong axis", "softmax", Fake(wrong_axis), "bound"),
    Wrong("ignored strides", "matmul", Fake(ignored_strides), "bound"),
    Wrong("cached output", "matmul", Fake(CachedOutput()), "stale"),
    Wrong("dropped last k", "matmul", Fake(dropped_last_k), "bound"),
    Wrong("writes its input", "matmul", Fake(writes_its_input), "inputs"),
    Wrong("random bits", "matmul", Fake(random_bits), "determinism"),
    Wrong("naive softmax", "softmax", Fake(naive_softmax), "bound", "hostile"),
    Wrong("no epsilon", "rms_norm", Fake(no_epsilon), "bound"),
    Wrong("one-pass variance", "layer_norm", Fake(one_pass_variance), "bound", "hostile"),
    Wrong("wrong dtype", "matmul", Fake(wrong_dtype), "bound"),
    Wrong("swallows NaN", "matmul", Fake(swallows_nan), "bound", "hostile"),
    Wrong("raises", "matmul", Fake(raises), "exception"),
    Wrong("causal to the start", "attention", Fake(causal_to_the_start), "bound"),
    Wrong("one column", "matmul", Fake(one_column), "bound", "full"),
]
