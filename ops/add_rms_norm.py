"""Residual add and root-mean-square norm: s = x + residual, y = s / sqrt(mean(s^2) + eps) * weight.

x, residual (..., n), weight (n,) -> (y, s), both (..., n), s rounded to the operands' dtype; y may
be computed from s before or after that rounding. One float dtype (float64, float32, float16,
bfloat16); half types are computed in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.engine import call
from portable.op import Bound, Case, Cost, Op, Problem, TensorSpec, Work
from portable.ops import _bounds as bounds
from portable.ops import _norms as norms
from portable.ops import _rules as rules
from portable.ops.rms_norm import normalised, relative_error

NAME, VERSION, OPERANDS = "add_rms_norm", 1, ("x", "residual", "weight?")
PARAMS: Mapping[str, Any] = {"eps": 1e-6}


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks dtypes, shapes and eps."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    eps = rules.epsilon(NAME, given["eps"])
    rules.floats(NAME, specs)
    x = norms.check_shapes(NAME, specs)
    rules.shape_is(NAME, "residual", specs["residual"], x.shape, "(the shape of x)")
    return rules.problem(NAME, VERSION, OPERANDS, specs, {"eps": eps}, (x.dense(), x.dense()))


def cost(problem: Problem) -> Cost:
    """Per element the add, square, add, scale (and weight); per row one reciprocal root."""
    x = problem["x"]
    unit = dtypes.accumulator(x.dtype)
    per_element = 4 + ("weight" in problem.operands)
    rows = x.size // max(x.shape[-1], 1)
    work = (Work("vector", unit, float(per_element * x.size)), Work("special", unit, float(rows)))
    # Fused: the sum is written once as a result, and not read again.
    reads = sum(t.touched_bytes for t in problem.tensors) if x.size else 0
    return Cost(work, reads, sum(r.nbytes for r in problem.results))


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """In float64, y from the unrounded sum."""
    given = dict(zip(problem.operands, map(bounds.wide, arrays), strict=True))
    with np.errstate(all="ignore"):
        s = given["x"] + given["residual"]
    return normalised(s, given.get("weight"), problem.param("eps")), s


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """s: one rounding. y: as rms_norm, and the rounding of s once in s and once in its RMS."""
    y, s = expected
    if not y.size:
        return Bound(), Bound()
    u = bounds.u_acc(problem)
    with np.errstate(all="ignore"):
        size = np.abs(y)
        worst = (relative_error(u, y.shape[-1]) + 2 * u) * size
        whole_row = dtypes.roundoff(problem.dtype) * size
        usual = worst / 4 + whole_row / 4
    return (
        bounds.bound(problem.dtype, y, worst + whole_row, usual, [size]),
        bounds.bound(problem.dtype, s, 0.0),
    )


def cases() -> Sequence[Case]:
    """Rows of many lengths, with and without weight, layouts, hostile values."""
    return norms.norm_cases(("weight",), residual=True)


OP = Op(NAME, VERSION, OPERANDS, PARAMS, dtypes.FLOATS, bind, cost, reference, tolerance, cases)


def add_rms_norm(x: Any, residual: Any, weight: Any | None = None, *, eps: float = 1e-6) -> Any:
    """(y, s): s = x + residual, y = s / sqrt(mean(s^2) + eps) * weight over the last axis.

    x, residual (..., n), weight (n,) -> two arrays (..., n); one float dtype (float64, float32,
    float16, bfloat16; half types are computed in float32).

    Raises:
        ShapeError: residual has not the shape of x, weight is not (n,), or x is 0-d.
        DTypeError: dtypes differ or are not floats.
        ParameterError: eps is negative or not a number.
    """
    return call(OP, (x, residual, weight), (eps,))
