"""jax, imported so that it leaves the memory of a GPU to its neighbours.

By default JAX takes three quarters of a GPU's memory when it first touches it. When `portable` is
the first to import it, it allocates on demand instead; a value that the user has set is kept.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from typing import Any

if "jax" not in sys.modules:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp

__all__ = ["jax", "jnp", "x64"]


def x64() -> AbstractContextManager[Any]:
    """A context in which jax keeps 64-bit types, whatever `jax_enable_x64` says outside."""
    enable: Any = getattr(jax, "enable_x64", None)
    if enable is None:
        from jax import experimental

        enable = experimental.enable_x64
    found: AbstractContextManager[Any] = enable(True)
    return found
