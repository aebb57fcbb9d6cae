"""jax, imported so that it leaves the memory of a GPU to its neighbours.

By default JAX takes three quarters of a GPU's memory when it first touches it. When `portable` is
the first to import it, it allocates on demand instead; a value that the user has set is kept.
"""

from __future__ import annotations

import os
import sys

if "jax" not in sys.modules:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp

__all__ = ["jax", "jnp", "x64"]


def x64() -> object:
    """A context in which jax keeps 64-bit types, whatever `jax_enable_x64` says outside."""
    enable = getattr(jax, "enable_x64", None)
    if enable is None:
        from jax.experimental import enable_x64 as enable
    return enable(True)
