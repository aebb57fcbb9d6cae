"""ONNX's Attention as calls of portable.attention: caches, windows and lengths become a mask.

The optional fourth result, the scores, is the product of queries and keys by portable.matmul, with
the mask added or through portable.softmax as the test asks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import portable

Array = Any
Attributes = dict[str, Any]


class Gap(Exception):
    """The operator, as this test uses it, is not expressible."""


def heads(x: Array, count: int) -> Array:
    """(b, s, count d) as (b, count, s, d)."""
    b, s, hidden = x.shape
    return x.reshape(b, s, count, hidden // count).transpose(0, 2, 1, 3)


def attention(
    at: Attributes,
    q: Array,
    k: Array,
    v: Array,
    mask: Array = None,
    past_key: Array = None,
    past_value: Array = None,
    lengths: Array = None,
) -> Any:
    """Y, present key and value, and the scores when the test wants them."""
    if at.get("softcap"):
        raise Gap("softcap")
    flat = q.ndim == 3
    if flat:
        q = heads(q, at["q_num_heads"])
        k, v = (heads(x, at["kv_num_heads"]) for x in (k, v))
    past = 0
    if past_key is not None:
        past = past_key.shape[2]
        k, v = (np.concatenate(two, axis=2) for two in ((past_key, k), (past_value, v)))
    s, t = q.shape[2], k.shape[2]
    at_end = lengths is None and t - s == past  # as portable aligns causal: to the last key
    causal = bool(at.get("is_causal"))
    before = past if lengths is None else (lengths - s)[:, None, None, None]
    allowed = _allowed(at, s, t, before, causal and not at_end, lengths)
    mask = _both(allowed, _padded(mask, t))
    rest = {"causal": causal and at_end, "scale": at.get("scale")}
    y = portable.attention(q, k, v, mask=mask, **rest)
    if flat:
        y = y.transpose(0, 2, 1, 3).reshape(y.shape[0], s, -1)
    if at["results"] < 4:
        return y, k, v
    if rest["causal"]:
        mask = _both(np.tri(s, t, t - s, dtype=bool), mask)
    return y, k, v, _scores(at, q, k, mask)


def _allowed(
    at: Attributes, s: int, t: int, before: Any, causal: bool, lengths: Array
) -> Array | None:
    """Which keys each query sees: `before` keys precede the first query."""
    here, key = before + np.arange(s)[:, None], np.arange(t)
    left, right = at.get("left_window_size", -1), at.get("right_window_size", -1)
    found = None
    if causal:
        found = key <= here
    if left >= 0:
        found = _and(found, key >= here - left)
    if right >= 0:
        found = _and(found, key <= here + right)
    if lengths is not None:
        found = _and(found, key < lengths[:, None, None, None])
    return found


def _and(one: Array | None, other: Array) -> Array:
    return other if one is None else one & other


def _padded(mask: Array, keys: int) -> Array:
    """ONNX takes a mask that is shorter than the keys; the rest is masked out."""
    if mask is None or mask.shape[-1] == keys:
        return mask
    rest = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
    return np.pad(mask, rest, constant_values=False if mask.dtype == bool else -np.inf)


def _both(allowed: Array | None, mask: Array) -> Array:
    if allowed is None or mask is None:
        return allowed if mask is None else mask
    if mask.dtype == bool:
        return mask & allowed
    return np.where(allowed, mask, mask.dtype.type(-np.inf))


def _scores(at: Attributes, q: Array, k: Array, mask: Array) -> Array:
    """Products (modes 0 and 1), with the mask (2), or probabilities (3): 0 where all is masked."""
    scale = at.get("scale") or q.shape[-1] ** -0.5
    root = q.dtype.type(scale**0.5)
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    products = portable.matmul(q * root, np.swapaxes(k * root, 2, 3))
    mode = at.get("qk_matmul_output_mode", 0)
    if mode < 2 or mask is None:
        return products if mode < 3 else portable.softmax(products, axis=-1)
    if mask.dtype == bool:
        mask = np.where(mask, products.dtype.type(0), products.dtype.type(-np.inf))
    biased = (products + mask).astype(products.dtype)
    if mode == 2:
        return biased
    seen = (np.broadcast_to(mask, biased.shape) > -np.inf).any(axis=-1, keepdims=True)
    return np.where(seen, portable.softmax(biased, axis=-1), 0).astype(products.dtype)
