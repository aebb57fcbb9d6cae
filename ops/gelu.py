"""Gaussian error linear unit: y = x Phi(x).

approximate "none": x/2 (1 + erf(x / sqrt 2));
approximate "tanh": x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).

x of any shape -> the same shape and dtype (float64, float32, float16, bfloat16; half types are
computed in float32). gelu(-inf) is NaN (-inf * 0), as in IEEE arithmetic, torch and JAX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array
from portable.engine import call
from portable.op import Bound, Case, Cost, Op, Problem, TensorSpec
from portable.ops import _activations as activations
from portable.ops import _bounds as bounds
from portable.ops import _rules as rules
from portable.ops._cases import elementwise_cases

NAME, VERSION, OPERANDS = "gelu", 1, ("x",)
PARAMS: Mapping[str, Any] = {"approximate": "none"}
_FORMULA = {"none": "gelu", "tanh": "gelu_tanh"}


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks the dtype and the name of the approximation."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    formula = rules.choice(NAME, "approximate", given["approximate"], tuple(_FORMULA))
    rules.floats(NAME, specs)
    return rules.problem(
        NAME, VERSION, OPERANDS, specs, {"approximate": formula}, (specs["x"].dense(),)
    )


def cost(problem: Problem) -> Cost:
    """Per element 4 operations and one erf, or 7 and one tanh."""
    x = problem["x"]
    work = activations.work(_FORMULA[problem.param("approximate")], x.dtype, x.size)
    return Cost(work, x.touched_bytes, problem.results[0].nbytes)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """In float64, without cancellation for negative x."""
    formula = _FORMULA[problem.param("approximate")]
    return (activations.apply(formula, bounds.wide(arrays[0])),)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """8 u_acc |x| + 1.01 u_out |y|: 1 + erf cancels for negative x, so the error is of x's size."""
    (y,) = expected
    formula, u = _FORMULA[problem.param("approximate")], bounds.u_acc(problem)
    worst = activations.error(formula, u, bounds.wide(arrays[0]), y)
    return (bounds.bound(problem.dtype, y, worst),)


def cases() -> Sequence[Case]:
    """Shapes, both formulas, layouts, hostile values."""
    return [
        *elementwise_cases(("x",), {}),
        *elementwise_cases(("x",), {"approximate": "tanh"}, prefix="tanh "),
    ]


OP = Op(NAME, VERSION, OPERANDS, PARAMS, dtypes.FLOATS, bind, cost, reference, tolerance, cases)


def gelu(x: Any, *, approximate: str = "none") -> Any:
    """y = x Phi(x), by erf ("none") or by the tanh formula ("tanh"); shape and dtype of x.

    x: float64, float32, float16 or bfloat16 (half types are computed in float32).

    Raises:
        DTypeError: x is not of a float dtype.
        ParameterError: an unknown approximation.
    """
    return call(OP, (x,), (approximate,))
