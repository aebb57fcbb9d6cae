"""Running sum along one axis: y[i] = x[0] + ... + x[i].

x of any shape with at least one axis -> the same shape and dtype: float64, float32, float16,
bfloat16 (half types accumulate in float32 and round each result once) or an integer type (wraps
around; unlike NumPy's, small integers are not widened: convert first where sums are large).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.engine import call
from portable.op import Bound, Case, Cost, Op, Problem, TensorSpec, Work
from portable.ops import _bounds as bounds
from portable.ops import _rules as rules
from portable.ops._cases import case, row_cases
from portable.ops._cases import x as tensor

NAME, VERSION, OPERANDS = "cumsum", 1, ("x",)
PARAMS: Mapping[str, Any] = {"axis": None}
DTYPES = (*dtypes.FLOATS, *dtypes.INTEGERS)


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks the dtype and the axis."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    rules.dtype_in(NAME, "x", specs["x"], DTYPES)
    axis = rules.axis(NAME, "x", specs["x"], given["axis"])
    return rules.problem(NAME, VERSION, OPERANDS, specs, {"axis": axis}, (specs["x"].dense(),))


def cost(problem: Problem) -> Cost:
    """One addition per element, less one per row."""
    x = problem["x"]
    rows = x.size // max(x.shape[problem.param("axis")], 1)
    work = (Work("vector", dtypes.accumulator(x.dtype), float(x.size - rows if x.size else 0)),)
    return Cost(work, x.touched_bytes, problem.results[0].nbytes)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """In float64; integers in their own dtype."""
    (x,) = arrays
    if dtypes.is_float(problem.dtype):
        x = bounds.wide(x)
    with np.errstate(all="ignore"):
        return (np.cumsum(x, axis=problem.param("axis"), dtype=x.dtype),)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """2 sqrt(i + 1) u_acc (|x[0]| + ... + |x[i]|) + 1.01 u_out |y|; integers exact."""
    (y,) = expected
    if not dtypes.is_float(problem.dtype):
        return (bounds.EXACT,)
    x, axis, u = bounds.wide(arrays[0]), problem.param("axis"), bounds.u_acc(problem)
    with np.errstate(all="ignore"):
        magnitude = np.cumsum(np.abs(x), axis=axis)
    if bounds.whole(u, (x,), magnitude, y, problem.dtype):
        return (bounds.EXACT,)
    terms = np.arange(1, x.shape[axis] + 1).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    return (bounds.bound(problem.dtype, y, *bounds.summation(u, terms, magnitude, y)),)


def cases() -> Sequence[Case]:
    """Rows of many lengths, every axis, layouts, integers that wrap, hostile values."""
    params = {"axis": -1}
    found = row_cases(axes=True, extra=("uniform", "integers"), params=params)
    for dtype in ("int8", "uint8", "int32", "int64"):
        operand = tensor(5, 131, fill="full", dtype=dtype)
        found.append(case(dtype, x=operand, params=params, level="full"))
    return found


OP = Op(NAME, VERSION, OPERANDS, PARAMS, DTYPES, bind, cost, reference, tolerance, cases)


def cumsum(x: Any, axis: int) -> Any:
    """y[i] = x[0] + ... + x[i] along `axis`; shape and dtype of x.

    Half types accumulate in float32. Integers keep their dtype and wrap around.

    Raises:
        ShapeError: the axis is out of range.
        DTypeError: x is bool, complex, float8 or no number.
        ParameterError: the axis is not an integer.
    """
    return call(OP, (x,), (rules.frozen(axis),))
