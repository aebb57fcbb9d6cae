"""Largest element over axes: y = max of x.

x of any shape -> the axes `axis` (an int, a tuple, or None for all) removed, or kept with extent 1;
the dtype stays: float64, float32, float16, bfloat16, integers, bool. NaN wins, as in NumPy. The
largest of nothing does not exist: an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.engine import call
from portable.errors import ShapeError
from portable.op import Bound, Case, Cost, Op, Problem, TensorSpec, Work
from portable.ops import _bounds as bounds
from portable.ops import _reductions as reductions
from portable.ops import _rules as rules

NAME, VERSION, OPERANDS = "max", 1, ("x",)
PARAMS, DTYPES = reductions.PARAMS, reductions.DTYPES


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks the dtype, axis and keepdims, and that there is something to compare."""
    x, given, shape = reductions.parse(NAME, specs, params)
    if 0 in [x.shape[i] for i in given["axis"]]:
        raise ShapeError(
            f"max: x of shape {x.shape} has no element along axis {given['axis']}; the largest of "
            f"nothing does not exist. Check for an empty array before the call"
        )
    return rules.problem(NAME, VERSION, OPERANDS, specs, given, (TensorSpec(shape, x.dtype),))


def cost(problem: Problem) -> Cost:
    """One comparison per element, less one per result."""
    x, y = problem["x"], problem.results[0]
    work = (
        Work(
            "vector", dtypes.accumulator(x.dtype), float(x.size - y.size if x.size > y.size else 0)
        ),
    )
    return Cost(work, x.touched_bytes, y.nbytes)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """NumPy's max; floats in float64 (exact)."""
    (x,) = arrays
    if 0 in problem.results[0].shape:
        return (np.zeros(problem.results[0].shape, np.float64),)
    if dtypes.is_float(problem.dtype):
        x = bounds.wide(x)
    with np.errstate(all="ignore"):
        return (np.asarray(np.max(x, **reductions.how(problem))),)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """Exact: the result is one of the elements."""
    return (bounds.EXACT,)


def cases() -> Sequence[Case]:
    """Axes, keepdims, lengths, layouts, integers, hostile values."""
    return reductions.reduction_cases(empty=False)


OP = Op(NAME, VERSION, OPERANDS, PARAMS, DTYPES, bind, cost, reference, tolerance, cases)


def max(x: Any, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Any:
    """Largest element of x over `axis` (None: all axes); the dtype of x. NaN wins.

    Raises:
        ShapeError: an axis is out of range or named twice, or there is nothing to compare.
        DTypeError: x is complex, float8 or no number.
        ParameterError: axis or keepdims of the wrong type.
    """
    return call(OP, (x,), (rules.frozen(axis), keepdims))
