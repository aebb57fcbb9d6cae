"""Activations in place, on float32 or float64 blocks."""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from portable.backends.numpy._support import Array

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
# Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 7.1.26: |error| <= 1.5e-7.
_P = 0.3275911
_A = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def relu(x: Array) -> None:
    """max(x, 0); NaN stays."""
    np.maximum(x, 0, out=x)


def gelu(x: Array) -> None:
    """x/2 (1 + erf(x / sqrt 2)), without cancellation for large negative x in float32."""
    if x.dtype != np.float32:
        x *= 0.5 * _erfc_double(x * -math.sqrt(0.5))
        return
    # x Phi(x) = (x + |x|)/2 - |x| erfc(|x| / sqrt 2)/2: no branch on the sign, no cancellation.
    # The cap keeps inf * 0 out of the last term; (-inf + inf)/2 is NaN, as -inf * 0 is.
    size = np.abs(x)
    tail = _half_erfc(size)
    x *= 0.5
    x += 0.5 * size
    tail *= np.minimum(size, np.float32(1e30), out=size)
    x -= tail


def gelu_tanh(x: Array) -> None:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    inner = x * x
    inner *= 0.044715
    inner += 1
    inner *= x
    inner *= _SQRT_2_OVER_PI
    np.tanh(inner, out=inner)
    inner += 1
    inner *= 0.5
    x *= inner


def silu(x: Array) -> None:
    """x / (1 + exp(-x))."""
    gate = np.negative(x)
    np.exp(gate, out=gate)
    gate += 1
    # exp overflows where the result underflows; -inf / inf must be NaN as -inf * 0 is.
    np.divide(x, gate, out=x)


ACTIVATIONS: dict[str | None, Callable[[Array], None]] = {
    "relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu,
}  # fmt: skip


def _half_erfc(size: Array) -> Array:
    """erfc(z)/2 with z = size / sqrt 2 >= 0: (a1 t + ... + a5 t^5) exp(-z^2) / 2."""
    z = size * np.float32(math.sqrt(0.5))
    t = z * np.float32(_P)
    t += 1
    np.reciprocal(t, out=t)
    tail = t * np.float32(0.5 * _A[0])
    for a in _A[1:]:
        tail += np.float32(0.5 * a)
        tail *= t
    z *= z
    np.negative(z, out=z)
    tail *= np.exp(z, out=z)
    return tail


def _erfc_double(x: Array) -> Array:
    return np.asarray(_erfc_function()(x), np.float64)


@functools.cache
def _erfc_function() -> Callable[[Any], Any]:
    """SciPy's erfc where it is installed (it is no dependency), else the C library's, slowly."""
    if importlib.util.find_spec("scipy") is None:
        return np.vectorize(math.erfc, otypes=[np.float64])
    found: Callable[[Any], Any] = importlib.import_module("scipy.special").erfc
    return found
