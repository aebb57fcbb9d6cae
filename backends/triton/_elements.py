"""Device functions that several kernels share."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import os
from typing import Any

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")
"""Triton 3.9's interpreter cuts float32 to bfloat16 where hardware rounds to nearest even, and
multiplies the bit patterns of bfloat16 in `tl.dot`: `narrow` and `multiplicand` make up for it."""
INVERSE_SQRT2 = tl.constexpr(0.7071067811865476)
TWO_SQRT_2_OVER_PI = tl.constexpr(1.5957691216057308)
GELU_CUBIC = tl.constexpr(0.044715)


def compute_type(dtype: str) -> Any:
    """The type in which a kernel computes: float64 stays, other floats compute in float32."""
    return tl.float64 if dtype == "float64" else tl.float32


@triton.jit
def widen(index, WIDE: tl.constexpr):
    """The index in 64 bits where an offset can pass 2^31."""
    if WIDE:
        return index.to(tl.int64)
    else:
        return index


@triton.jit
def block_index(block, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """Indices of one block along an axis."""
    return widen(block, WIDE) * BLOCK + tl.arange(0, BLOCK)


@triton.jit
def narrow(x, DTYPE: tl.constexpr):
    """x rounded to nearest even in DTYPE."""
    if INTERPRETED and tl.bfloat16 == DTYPE:
        single = x.to(tl.float32)
        bits = single.to(tl.uint32, bitcast=True)
        rounded = bits + 0x7FFF + ((bits >> 16) & 1)
        rounded = tl.where(single == single, rounded, bits | 0x400000)
        return (rounded >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        return x.to(DTYPE)


@triton.jit
def multiplicand(x):
    """An operand of tl.dot."""
    if INTERPRETED and x.dtype == tl.bfloat16:
        return x.to(tl.float32)
    else:
        return x


@triton.jit
def row_offset(row, inner, s0, s1):
    """Offset of a row's first element (see `_layout.Rows`)."""
    return (row // inner) * s0 + (row % inner) * s1


@triton.jit
def sigmoid(x):
    """1/(1+exp(-x)); 0 and 1 at the infinities."""
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def gelu_erf(x):
    """x/2 (1 + erf(x/sqrt 2))."""
    return 0.5 * x * (1.0 + tl.erf(x * INVERSE_SQRT2))


@triton.jit
def gelu_tanh(x):
    """x/2 (1 + tanh u) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3)."""
    return x * sigmoid(x * TWO_SQRT_2_OVER_PI * (x * x * GELU_CUBIC + 1.0))


@triton.jit
def activate(x, ACTIVATION: tl.constexpr):
    """relu (keeps NaN), gelu, gelu_tanh, silu, or nothing."""
    if ACTIVATION == "relu":
        return tl.where(x < 0, 0.0, x)
    elif ACTIVATION == "gelu":
        return gelu_erf(x)
    elif ACTIVATION == "gelu_tanh":
        return gelu_tanh(x)
    elif ACTIVATION == "silu":
        return x * sigmoid(x)
    else:
        return x
