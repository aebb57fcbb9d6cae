"""Activations of jax.nn by the names that ops use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from portable.backends.jax._load import jax

ACTIVATIONS: dict[str | None, Callable[[Any], Any]] = {
    "relu": jax.nn.relu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
    "silu": jax.nn.silu,
}
