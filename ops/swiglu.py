"""Gated linear unit with SiLU: y = gate / (1 + exp(-gate)) * up.

gate and up of one shape -> that shape; one float dtype (float64, float32, float16, bfloat16; half
types are computed in float32; silu(gate) may be rounded to the dtype before the product).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.engine import call
from portable.op import Bound, Case, Cost, Op, Problem, TensorSpec, Work
from portable.ops import _activations as activations
from portable.ops import _bounds as bounds
from portable.ops import _rules as rules
from portable.ops._cases import elementwise_cases

NAME, VERSION, OPERANDS = "swiglu", 1, ("gate", "up")
PARAMS: Mapping[str, Any] = {}


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks dtypes and shapes."""
    rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    rules.floats(NAME, specs)
    gate = specs["gate"]
    rules.shape_is(NAME, "up", specs["up"], gate.shape, "(the shape of gate)")
    return rules.problem(NAME, VERSION, OPERANDS, specs, {}, (gate.dense(),))


def cost(problem: Problem) -> Cost:
    """Per element silu (2 operations, exp, reciprocal) and one product."""
    gate = problem["gate"]
    unit = dtypes.accumulator(gate.dtype)
    work = (Work("vector", unit, 3.0 * gate.size), Work("special", unit, 2.0 * gate.size))
    reads = sum(t.touched_bytes for t in problem.tensors)
    return Cost(work, reads, problem.results[0].nbytes)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """silu(gate) * up in float64."""
    gate, up = map(bounds.wide, arrays)
    with np.errstate(all="ignore"):
        return (np.asarray(activations.apply("silu", gate) * up),)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """u_acc (9 + 3 |gate|) |y|, and one rounding of silu(gate) when it is stored in between."""
    (y,) = expected
    gate, up = map(bounds.wide, arrays)
    u, silu = bounds.u_acc(problem), activations.apply("silu", gate)
    with np.errstate(all="ignore"):
        worst = activations.error("silu", u, gate, silu) * np.abs(up) + u * np.abs(y)
        stored = bounds.underflow(problem.dtype) * np.abs(up)
    return (bounds.bound(problem.dtype, y, worst + stored, worst / 4 + stored, [np.abs(y)]),)


def cases() -> Sequence[Case]:
    """Shapes, layouts, hostile values."""
    return elementwise_cases(("gate", "up"), {})


OP = Op(NAME, VERSION, OPERANDS, PARAMS, dtypes.FLOATS, bind, cost, reference, tolerance, cases)


def swiglu(gate: Any, up: Any) -> Any:
    """y = gate * sigmoid(gate) * up; shape and dtype of both.

    gate, up: float64, float32, float16 or bfloat16 (half types are computed in float32).

    Raises:
        ShapeError: the shapes differ (they are not broadcast).
        DTypeError: dtypes differ or are not floats.
    """
    return call(OP, (gate, up), ())
