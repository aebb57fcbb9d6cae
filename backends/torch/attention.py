"""torch's scaled_dot_product_attention (flash kernels where the device has them)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from portable.backend import Config, Kernel
from portable.backends.torch._arrays import is_transforming
from portable.backends.torch._guard import guarded
from portable.backends.torch._support import dtype_of, float_reasons, half_configs
from portable.device import Device
from portable.op import Problem

DIFFERENTIABLE = True
TRACEABLE = True


def why_not(problem: Problem, device: Device) -> list[str]:
    """float64 on MPS."""
    return float_reasons(problem, device)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """{"widen": ...} for half types on the CPU."""
    return half_configs(problem, device)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Causal masks are aligned to the end; rows without a key are 0."""
    compute = torch.float32 if config.get("widen") else dtype_of(problem)
    dtype, shape = dtype_of(problem), problem.results[0].shape
    scale, causal = problem.param("scale"), problem.param("causal")
    s, t = problem["q"].shape[2], problem["k"].shape[2]
    group = problem["q"].shape[1] // max(problem["k"].shape[1], 1)
    masked = "mask" in problem.operands
    plain = causal and not masked and s == t  # torch's is_causal is aligned to the start
    built = causal and not plain and s > 1  # the only query of a decode step sees every key
    folds = group > 1 and not masked and (s == 1 or not causal)
    hides_nan = device.id == "cpu"

    def kernel(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        if 0 in shape or t == 0:
            return q.new_zeros(shape)
        if built:
            mask = _with_causal(mask, s, t, q.device)
        if mask is not None and mask.dtype != torch.bool:
            mask = mask.to(compute)
        q, k, v = q.to(compute), k.to(compute), v.to(compute)
        if folds:  # queries of a group see the same keys: they are one longer sequence
            q = q.reshape(q.shape[0], -1, group * s, q.shape[3])
        else:
            k, v = _shared(k, group), _shared(v, group)
        if is_transforming():
            y = _composed(q, k, v, _with_causal(mask, s, t, q.device) if plain else mask, scale)
        else:
            y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=plain, scale=scale)
        if mask is not None:
            seen = mask if mask.dtype == torch.bool else mask != -torch.inf
            y = torch.where(seen.any(-1, keepdim=True), y, 0.0)
        elif hides_nan:
            y = torch.where(_is_nan(q) | _is_nan(k[:, :, :1]), torch.nan, y)
        return y.reshape(shape).to(dtype)

    return guarded(kernel, problem, device)


def _is_nan(x: Any) -> Any:
    """Rows with a NaN. torch's flash kernel for the CPU gives 0 where every score is NaN (2.13);
    that is where the query has one, or all keys it sees, of which the first is one."""
    return x.isnan().any(-1, keepdim=True)


def _composed(q: Any, k: Any, v: Any, mask: Any, scale: float) -> Any:
    """From elementary kernels: flash kernels have no batching rule and no forward-mode gradient.
    On a CPU in float32: half products may not keep to their rows (`keeps_to_its_row`)."""
    dtype = v.dtype
    if q.device.type == "cpu":
        q, k, v = (x.to(_wide_dtype(x)) for x in (q, k, v))
    scores = torch.matmul(q * scale, k.transpose(-1, -2))
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        )
    return torch.matmul(torch.softmax(scores.to(_wide_dtype(scores)), -1).to(v.dtype), v).to(dtype)


def _wide_dtype(x: Any) -> torch.dtype:
    """float32 for half types, else the dtype of x."""
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


def _shared(x: Any, group: int) -> Any:
    """Key/value heads as views, one per query head."""
    if group == 1:
        return x
    return x.unsqueeze(2).expand(-1, -1, group, -1, -1).flatten(1, 2)


def _with_causal(mask: Any, s: int, t: int, device: Any) -> Any:
    keep = torch.ones(s, t, dtype=torch.bool, device=device).tril(t - s)
    if mask is None:
        return keep
    if mask.dtype == torch.bool:
        return mask & keep
    return mask.masked_fill(~keep, -torch.inf)
