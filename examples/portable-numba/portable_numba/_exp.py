"""exp(x) for float32 in operations that LLVM turns into vector code; within about 1 ulp.

x = k ln 2 + r with |r| <= ln 2 / 2; exp(r) by a polynomial of degree 6 (Cephes' coefficients);
2^k by putting k into the exponent's bits. NaN stays NaN; below -87.3 the result is 0, so that no
subnormal slows a sum down.
"""

from __future__ import annotations

import numba
import numpy as np

_LOG2E, _LN2_HIGH, _LN2_LOW = (
    np.float32(1.44269504),
    np.float32(0.693359375),
    np.float32(-2.12194440e-4),
)
_C = tuple(
    np.float32(c)
    for c in (
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    )
)
_LEAST, _ONE, _HALF, _ZERO = np.float32(-87.3), np.float32(1), np.float32(0.5), np.float32(0)


@numba.njit(inline="always")
def exp32(x):
    """exp(x) for x <= 0 (softmax's range)."""
    clamped = x if x > _LEAST else _LEAST
    k = np.floor(clamped * _LOG2E + _HALF)
    r = clamped - k * _LN2_HIGH - k * _LN2_LOW
    p = _C[0]
    p = p * r + _C[1]
    p = p * r + _C[2]
    p = p * r + _C[3]
    p = p * r + _C[4]
    p = p * r + _C[5]
    y = p * r * r + r + _ONE
    scaled = y * np.int32((np.int32(k) + 127) << 23).view(np.float32)
    if x != x:
        return x
    return scaled if x > _LEAST else _ZERO
