"""Activations in float64, with what an error bound needs: slope and evaluation error.

relu(x) = max(x, 0)
gelu(x) = x Phi(x) = x/2 erfc(-x / sqrt 2)
gelu_tanh(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
silu(x) = x / (1 + exp(-x))
"""

from __future__ import annotations

import math

from portable import dtypes
from portable._numpy import Array, np
from portable.op import Work

NAMES = (None, "relu", "gelu", "gelu_tanh", "silu")

# Largest |derivative|: how much an error of the argument can grow.
SLOPE = {None: 1.0, "relu": 1.0, "gelu": 1.13, "gelu_tanh": 1.13, "silu": 1.1}

# (vector operations, special functions) per element, least known:
# relu: max. gelu: scale, 1 +, two products; erf. gelu_tanh: x^2, fma, product, 1 +, two products;
# tanh. silu: 1 +, product; exp, reciprocal.
_OPERATIONS = {
    None: (0, 0), "relu": (1, 0), "gelu": (4, 1), "gelu_tanh": (7, 1), "silu": (2, 2),
}  # fmt: skip


def work(name: str | None, dtype: str, elements: int) -> tuple[Work, ...]:
    """Work of the activation; half types are computed in float32."""
    vector, special = _OPERATIONS[name]
    kinds = (("vector", vector), ("special", special))
    unit = dtypes.accumulator(dtype)
    return tuple(Work(kind, unit, float(count * elements)) for kind, count in kinds if count)


def apply(name: str | None, x: Array) -> Array:
    """The activation of a float64 array."""
    if name is None:
        return x
    with np.errstate(all="ignore"):
        if name == "relu":
            return np.where(np.isnan(x), x, np.maximum(x, 0.0))
        if name == "gelu":
            return np.asarray(x * (0.5 * _erfc(-x / math.sqrt(2.0))))
        if name == "gelu_tanh":
            inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
            # (1 + tanh t) / 2 = 1 / (1 + exp(-2t)): no cancellation for negative t.
            return np.asarray(x * (1 / (1 + np.exp(-2 * inner))))
        return np.asarray(x * (1 / (1 + np.exp(-x))))


def _erfc(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erfc, otypes=[np.float64])(x)) if x.size else x


def error(name: str | None, u: float, x: Array, y: Array) -> Array:
    """Worst error of evaluating y = act(x) with round-off u.

    gelu in its usual form x/2 (1 + erf(...)) cancels for negative x: the error is relative to x,
    not to y. silu: exp(-x) has a relative error of 3 u |x| from its argument.
    """
    with np.errstate(all="ignore"):
        if name is None or name == "relu":
            return np.zeros_like(y)
        if name == "silu":
            # exp(-x) overflows below -88 in float32: the result there is 0 in place of 1e-37.
            return u * (8 + 3 * np.abs(x)) * np.abs(y) + 2.0**-126 * np.abs(x)
        return np.asarray(8 * u * np.abs(x))
