"""Products of int8 (exact, int32) and fp8 (float32) matrices with scales, jitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._jit import jitted, result_dtype
from portable.backends.jax._load import jnp
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
    """One product, or one per block of k; the scales are applied to the sums."""
    dtype, block = result_dtype(problem), problem.param("block")
    m, k = problem["a"].shape
    n = problem["b"].shape[1]
    step = block or max(k, 1)
    total = jnp.int32 if problem.dtype == "int8" else jnp.float32

    def quantized_matmul(a: Any, b: Any, scale_a: Any, scale_b: Any) -> Any:
        y = jnp.zeros((m, n), jnp.float32)
        for index, start in enumerate(range(0, k, step)):
            left, right = a[:, start : start + step], b[start : start + step]
            part = jnp.matmul(left, right, precision="highest", preferred_element_type=total)
            part = part.astype(jnp.float32) * _rows_scale(scale_a, m, index, block)
            y = y + part * _columns_scale(scale_b, n, index, block)
        return y.astype(dtype)

    return jitted(problem, quantized_matmul)


def _rows_scale(scale: Any, m: int, index: int, block: int) -> Any:
    """() or (m, 1): the same for every block of k; (m, blocks): one column of it."""
    if scale.ndim == 0 or not block or scale.shape == (m, 1):
        return scale
    return scale[:, index : index + 1]


def _columns_scale(scale: Any, n: int, index: int, block: int) -> Any:
    """() or (1, n): the same for every block of k; (blocks, n / block): one row, spread."""
    if scale.ndim == 0 or not block or scale.shape == (1, n):
        return scale
    return jnp.repeat(scale[index], block)[:n]
