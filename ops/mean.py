"""Mean over axes: y = sum of x / n.

x of any shape -> the axes `axis` (an int, a tuple, or None for all) removed, or kept with extent 1.
Floats keep their dtype (float64, float32, float16, bfloat16; half types accumulate in float32);
integers and bool give float64. An empty mean is NaN.
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

NAME, VERSION, OPERANDS = "mean", 1, ("x",)
PARAMS, DTYPES = reductions.PARAMS, reductions.DTYPES


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks the dtype, axis and keepdims."""
    x, given, shape = reductions.parse(NAME, specs, params)
    dtype = x.dtype if dtypes.is_float(x.dtype) else "float64"
    return rules.problem(NAME, VERSION, OPERANDS, specs, given, (TensorSpec(shape, dtype),))


def cost(problem: Problem) -> Cost:
    """One addition per element, less one per result, and one scaling per result."""
    x, y = problem["x"], problem.results[0]
    unit = dtypes.accumulator(y.dtype)
    operations = max(x.size, y.size) if x.size else 0
    return Cost((Work("vector", unit, float(operations)),), x.touched_bytes, y.nbytes)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """In float64."""
    n = reductions.length(problem)
    with np.errstate(all="ignore"):
        total = np.asarray(np.sum(bounds.wide(arrays[0]), **reductions.how(problem)))
        return (total / n if n else np.full(total.shape, np.nan),)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """2 sqrt(n) u_acc mean|x| + 2 u_acc |y| + 1.01 u_out |y|."""
    (y,) = expected
    n = reductions.length(problem)
    if not n:
        return (Bound(),)
    dtype = problem.results[0].dtype
    u = dtypes.roundoff(dtypes.accumulator(dtype))
    with np.errstate(all="ignore"):
        magnitude = np.sum(np.abs(bounds.wide(arrays[0])), **reductions.how(problem)) / n
        worst, typical = bounds.summation(u, n, np.asarray(magnitude), y)
        return (bounds.bound(dtype, y, worst + 2 * u * np.abs(y), typical),)


def cases() -> Sequence[Case]:
    """Axes, keepdims, lengths, empty means, layouts, integers, hostile values."""
    return reductions.reduction_cases(empty=True)


OP = Op(NAME, VERSION, OPERANDS, PARAMS, DTYPES, bind, cost, reference, tolerance, cases)


def mean(x: Any, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Any:
    """Mean of x over `axis` (None: all axes).

    Floats keep their dtype (half types accumulate in float32); integers and bool give float64. An
    empty mean is NaN.

    Raises:
        ShapeError: an axis is out of range or named twice.
        DTypeError: x is complex, float8 or no number.
        ParameterError: axis or keepdims of the wrong type.
    """
    return call(OP, (x,), (rules.frozen(axis), keepdims))
