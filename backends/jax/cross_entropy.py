"""log sum exp minus the target's logit in float32 (float64), jitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._jit import jitted, result_dtype, wide
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
    """Rounded once, after the reduction; targets outside of the classes are clipped."""
    reduction, ignore = problem.param("reduction"), problem.param("ignore_index")
    dtype = result_dtype(problem)

    def cross_entropy(logits: Any, targets: Any) -> Any:
        if 0 in logits.shape:
            empty = jnp.zeros(logits.shape[:1], dtype)
            return empty if reduction == "none" else _reduced(reduction, empty, None)
        kept = None if ignore is None else targets != ignore
        index = targets if kept is None else jnp.where(kept, targets, 0)
        scores = jax.nn.log_softmax(wide(logits), -1)
        losses = -jnp.take_along_axis(scores, index[:, None], 1, mode="clip")[:, 0]
        if kept is not None:
            losses = jnp.where(kept, losses, 0)
        return _reduced(reduction, losses, kept).astype(dtype)

    return jitted(problem, cross_entropy)


def _reduced(reduction: str, losses: Any, kept: Any) -> Any:
    if reduction == "none":
        return losses
    count = losses.size if kept is None else kept.sum().astype(losses.dtype)
    return losses.sum() if reduction == "sum" else losses.sum() / count
