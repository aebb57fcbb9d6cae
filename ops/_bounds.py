"""Error bounds: what a correct implementation of a precision may be off by, and no more.

A result is accepted when both hold (u_acc, u_out: round-off of the accumulator and of the result):

1. per element: |y - ref| <= worst + 1.01 u_out |ref| + underflow, where `worst` is the op's own
   term; for a sum of K products it is 2 sqrt(K) u_acc (|A||B|): the probabilistic bound of Higham
   and Mary, twice (measured need: up to 1.07 for uniform data).
2. over all: ||y - ref|| / ||ref|| <= the relative RMS of a correct implementation, with some room:
   float32 1e-6, tf32 1e-3, float16 3.2e-4, bfloat16 2.6e-3 (0.65 u) when many different elements
   average out, up to one u for a single one. `typical`, an RMS-like error per element, is added in
   square: it carries conditioning (cancellation), which the constants do not know.

Roundings to a half type that an unfused implementation makes between named stages are `stages`.
Integer-valued data whose sums fit the accumulator and the result must come out exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from portable import dtypes
from portable._numpy import Array, np
from portable.op import Bound, Problem

EXACT = Bound(exact=True)
TF32 = 2.0**-10  # relative error of one operand cut (not rounded) to 10 mantissa bits
_DECLARED_RMS = {"float64": 2e-15, "float32": 1e-6}
# What may be lost near zero: f32 and bf16 subnormals may be flushed, f16 ones are kept.
_UNDERFLOW = {
    "float64": 2.0**-1022, "float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-24,
}  # fmt: skip


def wide(array: Array) -> Array:
    """The array in float64 (integers and bools too)."""
    return array.astype(np.float64)


def underflow(dtype: str) -> float:
    """What a value of the dtype may lose near zero."""
    return _UNDERFLOW[dtype]


def u_acc(problem: Problem) -> float:
    """Round-off of the type in which sums of the first operand accumulate."""
    return dtypes.roundoff(dtypes.accumulator(problem.dtype))


def summation(u: float, k: int | Array, magnitude: Array, reference: Array) -> tuple[Array, Array]:
    """(worst, typical) error of a sum of k terms (k may differ per element) in any order.

    `magnitude` is the sum of the terms' absolute values. A plain loop over zero-mean terms has an
    RMS error of about 0.3 u sqrt(k) ||terms||, which 1 u magnitude covers; over terms of one sign
    0.25 u sqrt(k) |sum|.
    """
    root = np.sqrt(k)
    with np.errstate(all="ignore"):
        return 2 * root * u * magnitude, u * magnitude + 0.3 * root * u * np.abs(reference)


def product(problem: Problem, k: int, magnitude: Array, reference: Array) -> tuple[Array, Array]:
    """(worst, typical) error of a sum of k products; precision "high" lets float32 run as tf32."""
    worst, typical = summation(u_acc(problem), k, magnitude, reference)
    if problem.precision == "high" and problem.dtype == "float32":
        worst = worst + 2 * TF32 * magnitude
        spread = 1.4 / math.sqrt(max(k, 1)) * magnitude
        typical = typical + TF32 * np.maximum(0.8 * np.abs(reference), spread)
    return worst, typical


def bound(
    dtype: str,
    reference: Array,
    worst: Array | float,
    typical: Array | float | None = None,
    stages: Sequence[Array] = (),
) -> Bound:
    """The bound of one float result.

    Args:
        dtype: of the result.
        reference: in float64.
        worst: allowed error per element before the last rounding.
        typical: RMS-like error per element before the last rounding; None takes worst / 2.
        stages: absolute values of intermediates that may be rounded to `dtype`, times the
            sensitivity of the result to them.
    """
    u, tiny = dtypes.roundoff(dtype), _UNDERFLOW[dtype]
    with np.errstate(all="ignore"):
        finite = np.isfinite(reference)
        rounded = [np.where(finite, np.abs(v), 0.0) for v in (reference, *stages)]
        error = np.where(finite, worst, 0.0)
        absolute = error + tiny
        for values in rounded:
            absolute = absolute + 1.01 * u * values
        scale = _mean_square(rounded[0])
        if scale == 0.0:
            return Bound(absolute)
        usual = error / 2 if typical is None else np.where(finite, typical, 0.0)
        square = _mean_square(usual) + tiny**2
        if dtype in _DECLARED_RMS:
            square += _DECLARED_RMS[dtype] ** 2 * sum(map(_mean_square, rounded))
        else:
            square += sum(_rounding_square(dtype, values) for values in rounded)
        return Bound(absolute, math.sqrt(square / scale))


def _mean_square(values: Array) -> float:
    return float(np.mean(np.square(values))) if values.size else 0.0


def _rounding_square(dtype: str, values: Array) -> float:
    """Mean square error of rounding `values`: (0.65 u)^2 of many, up to u^2 of a few."""
    square = _mean_square(values)
    if square == 0.0:
        return 0.0
    # How many errors average out: heavy elements count for less, and elements that round to the
    # same number (in a sample) as one.
    fourth = float(np.mean(np.square(np.square(values / math.sqrt(square)))))
    sample = values.ravel()[:: max(1, values.size // 4096)]
    distinct = np.unique(sample.astype(dtypes.numpy_dtype(dtype)).astype(np.float64)).size
    parts = min(values.size / fourth, distinct)
    return min(1.03, 0.42 + 1 / math.sqrt(parts)) * dtypes.roundoff(dtype) ** 2 * square


def whole(
    u: float, arrays: Sequence[Array], magnitude: Array, reference: Array, dtype: str
) -> bool:
    """Whether the inputs are whole numbers whose sums are exact in any order of summation.

    `u` is the round-off of the accumulator; `magnitude` bounds every partial sum.
    """
    return (
        bool(reference.size)
        and all(bool(np.all(np.isfinite(a) & (a == np.rint(a)))) for a in arrays)
        and float(np.max(magnitude)) <= 1 / u
        and float(np.max(np.abs(reference))) <= 1 / dtypes.roundoff(dtype)
    )
