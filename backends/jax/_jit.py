"""One jitted XLA computation per problem.

Nothing is donated: a kernel's inputs belong to the caller (on the CPU they may be the caller's own
NumPy memory), and intermediates live inside of one computation, where XLA reuses them anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from portable.backend import Kernel
from portable.backends.jax._load import jax, jnp, x64
from portable.op import Problem

_WIDE = ("float64", "int64", "uint64", "complex128")


def jitted(problem: Problem, function: Callable[..., Any]) -> Kernel:
    """The function compiled by XLA; 64-bit problems keep their width whatever the user's setting.

    Results are asynchronous: whoever takes them to the host waits for them.
    """
    compiled = jax.jit(function)
    if not any(spec.dtype in _WIDE for spec in (*problem.tensors, *problem.results)):
        return compiled  # type: ignore[no-any-return]

    def kernel(*arrays: Any) -> Any:
        if any(isinstance(x, jax.core.Tracer) for x in arrays):
            return compiled(*arrays)  # inside of somebody's trace the setting must not change
        with x64():
            return compiled(*arrays)

    return kernel


def precision(problem: Problem) -> Any:
    """XLA's precision of a product: full, or three bfloat16/TF32 passes where that is allowed."""
    return jax.lax.Precision.HIGHEST if problem.precision == "highest" else jax.lax.Precision.HIGH


def accumulator(dtype: str) -> Any:
    """The dtype in which products are accumulated."""
    return jnp.float32 if dtype in ("float16", "bfloat16") else jnp.dtype(dtype)


def result_dtype(problem: Problem) -> str:
    """Name of the (first) result's dtype."""
    return problem.results[0].dtype


def index_dtype() -> Any:
    """int64, or int32 inside of a trace without 64-bit types."""
    return jax.dtypes.canonicalize_dtype(jnp.int64)


def wide(x: Any) -> Any:
    """x in the dtype in which it is computed: half types in float32."""
    return x.astype(accumulator(str(x.dtype)))
