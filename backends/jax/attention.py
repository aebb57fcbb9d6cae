"""Attention by two products and a softmax in float32 (float64), jitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._jit import accumulator, jitted, precision, wide
from portable.backends.jax._load import jax, jnp
from portable.device import Device
from portable.op import Problem

DIFFERENTIABLE = True
TRACEABLE = True


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune: XLA decides."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Grouped queries by an axis of their own; rows without a key are 0."""
    total, how = accumulator(problem.dtype), precision(problem)
    scale, causal = problem.param("scale"), problem.param("causal")
    (b, h, s, d), (_, hk, t, _) = problem["q"].shape, problem["k"].shape
    group = h // hk if hk else 0
    shape = problem.results[0].shape

    def attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        if 0 in shape or t == 0:
            return jnp.zeros(shape, q.dtype)
        grouped = q.reshape(b, hk, group, s, d)
        scores = jnp.einsum(
            "bkgsd,bktd->bkgst", grouped, k, precision=how, preferred_element_type=total
        )
        scores = scores * scale
        keep = _keep(mask, causal, b, hk, group, s, t)
        if mask is not None and mask.dtype != bool:
            scores = scores + _grouped(wide(mask), b, hk, group, s, t)
        weights = _softmax(scores, keep)
        y = _weighted(weights, v, q.dtype, how, total)
        return y.reshape(shape).astype(q.dtype)

    return jitted(problem, attention)


def _grouped(mask: Any, b: int, hk: int, group: int, s: int, t: int) -> Any:
    """A mask as something that broadcasts to (b, hk, group, s, t)."""
    mask = jnp.broadcast_to(mask, (b, hk * group, s, t))
    return mask.reshape(b, hk, group, s, t)


def _keep(mask: Any, causal: bool, b: int, hk: int, group: int, s: int, t: int) -> Any:
    keep = None
    if causal:
        keep = jnp.arange(t) <= jnp.arange(s)[:, None] + (t - s)
    if mask is not None and mask.dtype == bool:
        kept = _grouped(mask, b, hk, group, s, t)
        keep = kept if keep is None else keep & kept
    return keep


def _softmax(scores: Any, keep: Any) -> Any:
    """Over the last axis; a row without a key is 0, and its gradient too."""
    if keep is not None:
        scores = jnp.where(keep, scores, -jnp.inf)
    top = jnp.max(scores, axis=-1, keepdims=True)
    top = jax.lax.stop_gradient(jnp.where(jnp.isneginf(top), 0, top))
    e = jnp.exp(scores - top)
    total = e.sum(-1, keepdims=True)
    return e / jnp.where(total == 0, 1, total)


def _weighted(weights: Any, v: Any, dtype: Any, how: Any, total: Any) -> Any:
    """weights @ v, the weights rounded to v's dtype as tensor cores want them."""
    return jnp.einsum(
        "bkgst,bktv->bkgsv",
        weights.astype(dtype),
        v,
        precision=how,
        preferred_element_type=total,
    )
