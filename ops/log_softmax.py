"""Logarithm of softmax along one axis: y = x - max x - log(sum exp(x - max x)).

x of any shape with at least one axis -> the same shape and dtype (float64, float32, float16,
bfloat16; half types are computed in float32). A row of only -inf, with NaN or with +inf is NaN;
-inf in an ordinary row stays -inf.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.engine import call
from portable.op import Bound, Case, Cost, Op, Problem, TensorSpec, Work
from portable.ops import _bounds as bounds
from portable.ops import _rules as rules
from portable.ops._cases import row_cases

NAME, VERSION, OPERANDS = "log_softmax", 1, ("x",)
PARAMS: Mapping[str, Any] = {"axis": -1}


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks the dtype and the axis."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    rules.floats(NAME, specs)
    axis = rules.axis(NAME, "x", specs["x"], given["axis"])
    return rules.problem(NAME, VERSION, OPERANDS, specs, {"axis": axis}, (specs["x"].dense(),))


def cost(problem: Problem) -> Cost:
    """Per element max, subtract, add, subtract and one exp; per row one log."""
    x = problem["x"]
    unit = dtypes.accumulator(x.dtype)
    rows = x.size // max(x.shape[problem.param("axis")], 1)
    work = (Work("vector", unit, 4.0 * x.size), Work("special", unit, float(x.size + rows)))
    return Cost(work, x.touched_bytes, problem.results[0].nbytes)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """In float64, with the maximum of each row taken off first."""
    x, axis = bounds.wide(arrays[0]), problem.param("axis")
    if not x.size:
        return (x,)
    with np.errstate(all="ignore"):
        shifted = x - np.max(x, axis=axis, keepdims=True)
        return (shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True)),)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """u_acc (8 + 2 sqrt(n) + 2 |max x - x| + 3 log n + |max x|): sum, subtractions, log-sum-exp.

    |max x| is there for x - (max + log sum), which rounds the log-sum-exp.
    """
    (y,) = expected
    x, axis = bounds.wide(arrays[0]), problem.param("axis")
    if not x.size:
        return (Bound(),)
    with np.errstate(all="ignore"):
        top = np.max(x, axis=axis, keepdims=True)
        depth = np.where(np.isfinite(x), top - x, 0.0)
        n = x.shape[axis]
        terms = 8 + 2 * math.sqrt(n) + 2 * depth + 3 * math.log(n) + np.abs(top)
        worst = bounds.u_acc(problem) * terms
    return (bounds.bound(problem.dtype, y, worst),)


def cases() -> Sequence[Case]:
    """Rows of many lengths, every axis, layouts, masks of -inf, hostile values."""
    return row_cases(axes=True)


OP = Op(NAME, VERSION, OPERANDS, PARAMS, dtypes.FLOATS, bind, cost, reference, tolerance, cases)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """y = x - log sum exp x along `axis`; shape and dtype of x.

    x: float64, float32, float16 or bfloat16 (half types are computed in float32), at least 1-d.
    A row of only -inf is NaN.

    Raises:
        ShapeError: axis out of range.
        DTypeError: x is not of a float dtype.
        ParameterError: axis is not an integer.
    """
    return call(OP, (x,), (rules.frozen(axis),))
