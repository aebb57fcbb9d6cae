"""Activations of torch, right at infinity."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F


def gelu(x: Any) -> Any:
    """F.gelu by erf; the vectorised CPU kernel has NaN for +inf (torch 2.13), which is inf."""
    y = F.gelu(x)
    if x.device.type != "cpu" or x.dtype == torch.float64:
        return y
    return y.masked_fill(x == math.inf, math.inf)


ACTIVATIONS: dict[str | None, Callable[[Any], Any]] = {
    "relu": F.relu,
    "gelu": gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
