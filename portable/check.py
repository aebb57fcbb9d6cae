"""Is a result right? Compares with an op's float64 reference within the op's own error bound.

Every element counts: shape and dtype equal, NaN and infinities where the reference has them and
nowhere else, each element within its absolute bound, all together within the relative RMS of the
declared precision, integers bit for bit. An overflow of the result's dtype is an infinity of the
reference's sign; within the bound of the largest finite value both are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.op import Bound, Op, Problem, TensorSpec

_WORST = 3  # elements named in a failure


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far one result is from its reference.

    Attributes:
        of_bound: largest |y - ref| as a fraction of what is allowed there (1 = at the limit).
        ulps: largest |y - ref| in units of the last place of the reference in y's dtype.
        relative_rms: ||y - ref|| / ||ref|| over finite elements; 0 when ref is all zeros.
        allowed_rms: what it may be, or None.
    """

    of_bound: float
    ulps: float
    relative_rms: float
    allowed_rms: float | None

    def __str__(self) -> str:
        limit = "" if self.allowed_rms is None else f" of {self.allowed_rms:.2g}"
        return (
            f"{self.of_bound:.2f} of the bound, {self.ulps:.3g} ulp, "
            f"relative RMS {self.relative_rms:.2g}{limit}"
        )


def check(op: Op, problem: Problem, arrays: Sequence[Array], results: Any) -> list[str]:
    """What is wrong with the results, in words; empty when they are right.

    Args:
        op: the op.
        problem: what was computed.
        arrays: the operands, as NumPy arrays in the problem's order.
        results: NumPy array, or a tuple of them when the op has several results.
    """
    results = tuple(results) if isinstance(results, tuple | list) else (results,)
    if len(results) != len(problem.results):
        return [f"{len(results)} results; {op.name} has {len(problem.results)}"]
    expected = op.reference(problem, arrays)
    bounds = op.tolerance(problem, arrays, expected)
    return check_against(problem, expected, bounds, results)


def accuracy(op: Op, problem: Problem, arrays: Sequence[Array], results: Any) -> list[Accuracy]:
    """How far each result is from its reference; shapes must be right already."""
    results = tuple(results) if isinstance(results, tuple | list) else (results,)
    expected = op.reference(problem, arrays)
    bounds = op.tolerance(problem, arrays, expected)
    return [
        measure(spec.dtype, np.asarray(y), ref, bound)
        for spec, y, ref, bound in zip(problem.results, results, expected, bounds, strict=True)
    ]


def check_against(
    problem: Problem, expected: Sequence[Array], bounds: Sequence[Bound], results: Sequence[Any]
) -> list[str]:
    """What is wrong with results whose reference and bounds are known already."""
    found = []
    for i, (spec, y, ref, bound) in enumerate(
        zip(problem.results, results, expected, bounds, strict=True)
    ):
        name = f"result {i}: " if len(results) > 1 else ""
        found += [name + line for line in compare(spec, np.asarray(y), ref, bound)]
    return found


def compare(spec: TensorSpec, y: Array, ref: Array, bound: Bound) -> list[str]:
    """What is wrong with one result; empty when it is right."""
    dtype = _dtype_name(y)
    if dtype != spec.dtype:
        return [f"dtype is {dtype}, must be {spec.dtype}"]
    if y.shape != spec.shape:
        return [f"shape is {y.shape}, must be {spec.shape}"]
    if not y.size:
        return []
    if not dtypes.is_float(dtype):
        return _exact(y, ref)
    return _pattern(dtype, y, ref, bound) or _close(dtype, y, ref, bound)


def _dtype_name(y: Array) -> str:
    return dtypes.canonical(y.dtype.name) if y.dtype.name in dtypes.DTYPES else y.dtype.name


def _exact(y: Array, ref: Array) -> list[str]:
    """Equal bit for bit; for floats 0 equals -0 and NaN equals NaN."""
    wrong = y != ref
    if y.dtype.kind not in "iub":
        wrong &= ~((y != y) & (ref != ref))  # NaN differs from itself
    return _name("not exactly equal", wrong, np.where(wrong, 1.0, 0.0), y, ref)


def _pattern(dtype: str, y: Array, ref: Array, bound: Bound) -> list[str]:
    """NaN and infinities are where the reference has them, and nowhere else."""
    wide = y.astype(np.float64)
    must, may = _overflow(dtype, ref, bound)
    expected_inf = np.where(np.isinf(ref) | must, np.sign(ref), 0.0)
    inf = np.where(np.isinf(wide), np.sign(wide), 0.0)
    undecided = may & (inf == np.sign(ref))
    nan = np.isnan(wide) != np.isnan(ref)
    infinite = (inf != expected_inf) & ~undecided & ~nan
    return _name("NaN pattern differs", nan, nan * 1.0, y, ref) + _name(
        "infinity pattern differs", infinite, infinite * 1.0, y, ref
    )


def _overflow(dtype: str, ref: Array, bound: Bound) -> tuple[Array, Array]:
    """Where the result must be infinite, and where it may be, for lack of range."""
    largest = dtypes.info(dtype).largest
    # Rounding goes to infinity from half an ulp above the largest finite value.
    edge = largest * (1 + dtypes.roundoff(dtype))
    slack = 0.0 if bound.exact else bound.absolute
    with np.errstate(all="ignore"):
        size = np.where(np.isfinite(ref), np.abs(ref), 0.0)
        return size - slack > edge, size + slack >= largest


def _close(dtype: str, y: Array, ref: Array, bound: Bound) -> list[str]:
    if bound.exact:
        return _exact(y.astype(np.float64), ref)
    error = _error(y, ref)
    wrong = error > bound.absolute
    found = _name("outside of the error bound", wrong, _ratio(error, bound), y, ref)
    measured = measure(dtype, y, ref, bound)
    if measured.allowed_rms is not None and measured.relative_rms > measured.allowed_rms:
        found.append(
            f"relative RMS error {measured.relative_rms:.3g} is above {measured.allowed_rms:.3g}, "
            f"that of a correct implementation ({measured})"
        )
    return found


def _error(y: Array, ref: Array) -> Array:
    """|y - ref|; 0 where either is not finite (the pattern is checked apart)."""
    wide = y.astype(np.float64)
    both = np.isfinite(wide) & np.isfinite(ref)
    with np.errstate(all="ignore"):
        return np.where(both, np.abs(wide - ref), 0.0)


def _ratio(error: Array, bound: Bound) -> Array:
    with np.errstate(all="ignore"):
        return np.where(error > 0, error / np.asarray(bound.absolute), 0.0)


def measure(dtype: str, y: Array, ref: Array, bound: Bound) -> Accuracy:
    """How far one float result is from its reference."""
    if not y.size:
        return Accuracy(0.0, 0.0, 0.0, bound.relative_rms)
    if not dtypes.is_float(dtype):
        wrong = 0.0 if np.array_equal(y, ref) else np.inf
        return Accuracy(wrong, wrong, 0.0, None)
    error = _error(y, ref)
    ratio = np.where(error > 0, np.inf, 0.0) if bound.exact else _ratio(error, bound)
    ulps = error / _ulp(dtype, ref)
    used = np.isfinite(ref) & np.isfinite(y.astype(np.float64))
    norm = float(np.sqrt(np.sum(np.square(np.where(used, ref, 0.0)))))
    rms = float(np.sqrt(np.sum(np.square(error)))) / norm if norm else 0.0
    return Accuracy(float(np.max(ratio)), float(np.max(ulps)), rms, bound.relative_rms)


def _ulp(dtype: str, ref: Array) -> Array:
    """Distance of neighbours of `dtype` at ref; subnormals count as the smallest normal binade."""
    smallest = {"float64": -1022, "float16": -14, "float8_e4m3fn": -6, "float8_e5m2": -14}
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(np.where(np.isfinite(ref), ref, 1.0))
    exponent = np.maximum(exponent - 1, smallest.get(dtype, -126))
    return np.asarray(np.ldexp(2 * dtypes.roundoff(dtype), exponent))


def _name(what: str, wrong: Array, weight: Array, y: Array, ref: Array) -> list[str]:
    """One line: how many elements, and the worst of them with index, value and reference."""
    count = int(np.count_nonzero(wrong))
    if not count:
        return []
    weight = np.where(wrong, np.nan_to_num(weight, nan=0.0, posinf=1e300), -1.0).ravel()
    worst = np.argsort(-weight, kind="stable")[: min(_WORST, count)]
    places = []
    for flat in worst:
        index = tuple(int(i) for i in np.unravel_index(flat, y.shape))
        times = "" if weight[flat] in (0.0, 1.0) else f" ({weight[flat]:.3g} of the bound)"
        places.append(f"{list(index)}: {y[index]!s} for {ref[index]!s}{times}")
    return [f"{what} at {count} of {y.size} elements: {'; '.join(places)}"]
