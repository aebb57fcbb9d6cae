"""Layer norm over the last axis: y = (x - mean) / sqrt(variance + eps) * weight + bias.

x (..., n), weight (n,), bias (n,) -> (..., n); the variance is the biased one (divided by n). One
float dtype (float64, float32, float16, bfloat16); half types are computed in float32. A mean far
above the deviation needs two passes or Welford's update: E[x^2] - mean^2 is outside of the bound.
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

NAME, VERSION, OPERANDS = "layer_norm", 1, ("x", "weight?", "bias?")
PARAMS: Mapping[str, Any] = {"eps": 1e-5}


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks dtypes, shapes and eps."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    eps = rules.epsilon(NAME, given["eps"])
    rules.floats(NAME, specs)
    x = norms.check_shapes(NAME, specs)
    return rules.problem(NAME, VERSION, OPERANDS, specs, {"eps": eps}, (x.dense(),))


def cost(problem: Problem) -> Cost:
    """Per element 5 operations (6 with weight, 7 with bias); per row one reciprocal root."""
    x = problem["x"]
    unit = dtypes.accumulator(x.dtype)
    # Sum; square and add (shifted sums, one pass); subtract and scale; weight; bias.
    per_element = 5 + ("weight" in problem.operands) + ("bias" in problem.operands)
    rows = x.size // max(x.shape[-1], 1)
    work = (Work("vector", unit, float(per_element * x.size)), Work("special", unit, float(rows)))
    reads = sum(t.touched_bytes for t in problem.tensors) if x.size else 0
    return Cost(work, reads, problem.results[0].nbytes)


def _parts(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, Array, Array, Array]:
    """In float64: deviations from the mean, root of variance + eps, weight, bias."""
    given = dict(zip(problem.operands, map(bounds.wide, arrays), strict=True))
    x = given["x"]
    d = x - np.mean(x, axis=-1, keepdims=True)
    root = np.sqrt(np.mean(d * d, axis=-1, keepdims=True) + problem.param("eps"))
    ones = np.ones(x.shape[-1:])
    return d, root, given.get("weight", ones), given.get("bias", 0 * ones)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Two passes in float64."""
    if not problem["x"].size:
        return (bounds.wide(arrays[0]),)
    with np.errstate(all="ignore"):
        d, root, weight, bias = _parts(problem, arrays)
        return (d / root * weight + bias,)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """Errors of the mean, of the deviation and of the variance, through the formula.

    The mean is off by e = 2 sqrt(n) u mean|x| / 2 (worst), which shifts every deviation d. In two
    passes the variance suffers e^2 only (relative to it), and its own summation.
    """
    (y,) = expected
    if not y.size:
        return (Bound(),)
    u, n = bounds.u_acc(problem), y.shape[-1]
    with np.errstate(all="ignore"):
        d, root, weight, bias = _parts(problem, arrays)
        average = np.mean(np.abs(bounds.wide(arrays[0])), axis=-1, keepdims=True)
        shift = min(n, 2 + math.sqrt(n)) * u * average
        z = np.abs(d) / root
        variance = (shift / root) ** 2 / 2 + (4 + math.sqrt(n)) * u
        normal = (shift + u * np.abs(d)) / root + z * variance
        worst = normal * np.abs(weight) + 2 * u * (z * np.abs(weight) + np.abs(bias))
    return (bounds.bound(problem.dtype, y, worst),)


def cases() -> Sequence[Case]:
    """Rows of many lengths, optional operands, layouts, mean far above deviation."""
    return norms.norm_cases(("weight", "bias"))


OP = Op(NAME, VERSION, OPERANDS, PARAMS, dtypes.FLOATS, bind, cost, reference, tolerance, cases)


def layer_norm(
    x: Any, weight: Any | None = None, bias: Any | None = None, *, eps: float = 1e-5
) -> Any:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias over the last axis.

    x (..., n), weight (n,), bias (n,) -> (..., n); one float dtype (float64, float32, float16,
    bfloat16; half types are computed in float32).

    Raises:
        ShapeError: weight or bias is not (n,), or x is 0-d.
        DTypeError: dtypes differ or are not floats.
        ParameterError: eps is negative or not a number.
    """
    return call(OP, (x, weight, bias), (eps,))
