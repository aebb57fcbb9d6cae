"""Sum over axes: y = sum of x.

x of any shape -> the axes `axis` (an int, a tuple, or None for all) removed, or kept with extent 1.
Floats keep their dtype (float64, float32, float16, bfloat16; half types accumulate in float32);
signed integers and bool give int64, unsigned ones uint64, wrapping around, as in NumPy. An empty
sum is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.engine import call
from portable.op import Bound, Case, Cost, Op, Problem, TensorSpec, Work
from portable.ops import _bounds as bounds
from portable.ops import _reductions as reductions
from portable.ops import _rules as rules

NAME, VERSION, OPERANDS = "sum", 1, ("x",)
PARAMS, DTYPES = reductions.PARAMS, reductions.DTYPES


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks the dtype, axis and keepdims."""
    x, given, shape = reductions.parse(NAME, specs, params)
    wide = {"f": x.dtype, "u": "uint64"}.get(dtypes.info(x.dtype).kind, "int64")
    return rules.problem(NAME, VERSION, OPERANDS, specs, given, (TensorSpec(shape, wide),))


def cost(problem: Problem) -> Cost:
    """One addition per element, less one per result."""
    x, y = problem["x"], problem.results[0]
    unit = dtypes.accumulator(y.dtype)
    work = (Work("vector", unit, float(max(x.size - y.size, 0))),)
    return Cost(work, x.touched_bytes, y.nbytes)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """In float64; integers as NumPy's sum."""
    (x,) = arrays
    if dtypes.is_float(problem.dtype):
        x = bounds.wide(x)
    with np.errstate(all="ignore"):
        return (np.asarray(np.sum(x, **reductions.how(problem))),)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """2 sqrt(n) u_acc sum|x| + 1.01 u_out |y|; integers, and whole numbers that fit, exact."""
    (y,) = expected
    if not dtypes.is_float(problem.dtype):
        return (bounds.EXACT,)
    x, n = bounds.wide(arrays[0]), reductions.length(problem)
    with np.errstate(all="ignore"):
        magnitude = np.asarray(np.sum(np.abs(x), **reductions.how(problem)))
    if bounds.whole(bounds.u_acc(problem), (x,), magnitude, y, problem.dtype):
        return (bounds.EXACT,)
    worst, typical = bounds.summation(bounds.u_acc(problem), n, magnitude, y)
    return (bounds.bound(problem.dtype, y, worst, typical),)


def cases() -> Sequence[Case]:
    """Axes, keepdims, lengths, empty sums, layouts, integers that wrap, hostile values."""
    return reductions.reduction_cases(empty=True)


OP = Op(NAME, VERSION, OPERANDS, PARAMS, DTYPES, bind, cost, reference, tolerance, cases)


def sum(x: Any, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Any:
    """Sum of x over `axis` (None: all axes).

    Floats keep their dtype (half types accumulate in float32); signed integers and bool give int64,
    unsigned integers uint64. An empty sum is 0.

    Raises:
        ShapeError: an axis is out of range or named twice.
        DTypeError: x is complex, float8 or no number.
        ParameterError: axis or keepdims of the wrong type.
    """
    return call(OP, (x,), (rules.frozen(axis), keepdims))
