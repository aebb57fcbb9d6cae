"""Root-mean-square norm over the last axis: y = x / sqrt(mean(x^2) + eps) * weight.

x (..., n), weight (n,) -> (..., n). One float dtype (float64, float32, float16, bfloat16); half
types are computed in float32 and rounded once.
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
from portable.ops import _norms as norms
from portable.ops import _rules as rules

NAME, VERSION, OPERANDS = "rms_norm", 1, ("x", "weight?")
PARAMS: Mapping[str, Any] = {"eps": 1e-6}


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks dtypes, shapes and eps."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    eps = rules.epsilon(NAME, given["eps"])
    rules.floats(NAME, specs)
    x = norms.check_shapes(NAME, specs)
    return rules.problem(NAME, VERSION, OPERANDS, specs, {"eps": eps}, (x.dense(),))


def cost(problem: Problem) -> Cost:
    """Per element square, add, scale (and weight); per row one reciprocal root."""
    x = problem["x"]
    unit = dtypes.accumulator(x.dtype)
    per_element = 3 + ("weight" in problem.operands)
    rows = x.size // max(x.shape[-1], 1)
    work = (Work("vector", unit, float(per_element * x.size)), Work("special", unit, float(rows)))
    reads = sum(t.touched_bytes for t in problem.tensors) if x.size else 0
    return Cost(work, reads, problem.results[0].nbytes)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """In float64."""
    given = dict(zip(problem.operands, map(bounds.wide, arrays), strict=True))
    return (normalised(given["x"], given.get("weight"), problem.param("eps")),)


def normalised(x: Array, weight: Array | None, eps: float) -> Array:
    """x / rms(x) * weight in float64."""
    if not x.size:
        return x
    with np.errstate(all="ignore"):
        y = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
        return y if weight is None else np.asarray(y * weight)


def relative_error(u: float, n: int) -> float:
    """Worst relative error: half of the sum of squares' sqrt(n) u, and five roundings."""
    return (6 + math.sqrt(n)) * u


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """(6 + sqrt(n)) u_acc |y| + 1.01 u_out |y|: squares are of one sign, so all is relative."""
    (y,) = expected
    if not y.size:
        return (Bound(),)
    with np.errstate(all="ignore"):
        worst = relative_error(bounds.u_acc(problem), y.shape[-1]) * np.abs(y)
    return (bounds.bound(problem.dtype, y, worst),)


def cases() -> Sequence[Case]:
    """Rows of many lengths, with and without weight, layouts, hostile values."""
    return norms.norm_cases(("weight",))


OP = Op(NAME, VERSION, OPERANDS, PARAMS, dtypes.FLOATS, bind, cost, reference, tolerance, cases)


def rms_norm(x: Any, weight: Any | None = None, *, eps: float = 1e-6) -> Any:
    """y = x / sqrt(mean(x^2) + eps) * weight over the last axis.

    x (..., n), weight (n,) -> (..., n); one float dtype (float64, float32, float16, bfloat16; half
    types are computed in float32).

    Raises:
        ShapeError: weight is not (n,), or x is 0-d.
        DTypeError: dtypes differ or are not floats.
        ParameterError: eps is negative or not a number.
    """
    return call(OP, (x, weight), (eps,))
