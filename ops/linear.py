"""Linear layer, fused: y = act(x @ w + bias) + residual.

x (..., k), w (k, n), bias (n,), residual (..., n) -> (..., n). activation: None, "relu", "gelu"
(by erf), "gelu_tanh", "silu". All operands share one float dtype; half types accumulate in float32.
x with 1 axis is one row: the result is (n,).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.engine import call
from portable.errors import ShapeError
from portable.op import Bound, Case, Cost, Op, Problem, TensorSpec, Work
from portable.ops import _activations as activations
from portable.ops import _bounds as bounds
from portable.ops import _rules as rules
from portable.ops._cases import FILLS, LAYOUTS, case, x

NAME, VERSION, OPERANDS = "linear", 1, ("x", "w", "bias?", "residual?")
PARAMS: Mapping[str, Any] = {"activation": None}


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks dtypes, shapes and the name of the activation."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    activation = rules.choice(NAME, "activation", given["activation"], activations.NAMES)
    rules.floats(NAME, specs)
    left, w = specs["x"], specs["w"]
    rules.at_least(NAME, "x", left, 1, "a last axis of k elements")
    rules.exactly(NAME, "w", w, 2, "(k, n)")
    if left.shape[-1] != w.shape[0]:
        hint = ""
        if left.shape[-1] == w.shape[1]:
            hint = " w is (k, n): pass w.T if yours is (n, k) as in torch."
        raise ShapeError(
            f"linear: x {left.shape} has {left.shape[-1]} elements in its last axis but w "
            f"{w.shape} has {w.shape[0]} rows; both must be k.{hint}"
        )
    out = (*left.shape[:-1], w.shape[1])
    if "bias" in specs:
        rules.shape_is(NAME, "bias", specs["bias"], out[-1:], "(n,): the columns of w")
    if "residual" in specs:
        rules.shape_is(NAME, "residual", specs["residual"], out, "(..., n): the shape of x @ w")
    result = TensorSpec(out, left.dtype)
    return rules.problem(NAME, VERSION, OPERANDS, specs, {"activation": activation}, (result,))


def cost(problem: Problem) -> Cost:
    """2 rows k n matrix operations, one per element for bias and residual, the activation."""
    k, n = problem["w"].shape
    rows = math.prod(problem["x"].shape[:-1])
    # Fused: x @ w is never stored; each operand is read once, the result written once.
    extras = sum(name in problem.operands for name in ("bias", "residual")) * rows * n
    unit = dtypes.accumulator(problem.dtype)
    work = [Work("matrix", problem.dtype, 2.0 * rows * k * n)]
    if extras:
        work.append(Work("vector", unit, float(extras)))
    work += activations.work(problem.param("activation"), problem.dtype, rows * n)
    reads = sum(t.touched_bytes for t in problem.tensors) if rows * n else 0
    return Cost(tuple(work), reads, problem.results[0].nbytes)


def _stages(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, Array, Array]:
    """In float64: x @ w + bias, its activation, and the result."""
    given = dict(zip(problem.operands, map(bounds.wide, arrays), strict=True))
    with np.errstate(all="ignore"):
        before = np.asarray(np.matmul(given["x"], given["w"]) + given.get("bias", 0.0))
        after = activations.apply(problem.param("activation"), before)
        return before, after, np.asarray(after + given.get("residual", 0.0))


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """act(x @ w + bias) + residual in float64."""
    return (_stages(problem, arrays)[-1],)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """The product's bound through the activation's slope; stages may round when not fused.

    An unfused implementation rounds x @ w + bias before the activation, and the activation before
    the residual is added; it may not round between the product and the bias.
    """
    (ref,) = expected
    given = dict(zip(problem.operands, map(bounds.wide, arrays), strict=True))
    activation, u = problem.param("activation"), bounds.u_acc(problem)
    before, after, _ = _stages(problem, arrays)
    slope, k = activations.SLOPE[activation], problem["w"].shape[0]
    with np.errstate(all="ignore"):
        magnitude = np.matmul(np.abs(given["x"]), np.abs(given["w"]))
        magnitude = magnitude + np.abs(given.get("bias", 0.0))
        everything = magnitude + np.abs(given.get("residual", 0.0))
        stages = [slope * np.abs(before)] if activation else []
        stages += [np.abs(after)] if "residual" in given else []
        stored = 1 / dtypes.roundoff(problem.dtype)  # whole numbers up to here are exact
        if (
            activation in (None, "relu")
            and all(bool(np.all(stage <= stored)) for stage in stages)
            and bounds.whole(u, list(given.values()), everything, ref, problem.dtype)
        ):
            return (bounds.EXACT,)
        worst, typical = bounds.product(problem, k + 1, magnitude, before)
        evaluation = activations.error(activation, u, before, after)
        last = u * np.abs(ref) + (u * np.abs(after) if "residual" in given else 0.0)
        return (
            bounds.bound(
                problem.dtype,
                ref,
                slope * worst + evaluation + last,
                slope * typical + evaluation / 4 + last / 4,
                stages,
            ),
        )


def cases() -> Sequence[Case]:
    """Every activation with and without bias and residual; tails, layouts, hostile values."""
    found = []
    for activation in activations.NAMES:
        params = {"activation": activation}
        for bias, residual in ((False, False), (True, False), (False, True), (True, True)):
            name = f"{activation}{' bias' * bias}{' residual' * residual}"
            found.append(_case(name, (33,), 65, 47, params, bias, residual))
        found.append(_case(f"{activation} tails", (3, 7), 131, 211, params, True, True, "full"))
        found.append(
            _case(f"{activation} exact", (19,), 31, 24, params, True, True, "full", "integers")
        )
    for rows, k, n in _SHAPES:
        found.append(_case(f"{rows} {k} {n}", rows, k, n, {"activation": "gelu"}, True, True))
    for layout in LAYOUTS:
        for operand in ("x", "w", "residual"):
            changed = {operand: layout}
            found.append(
                case(
                    f"{operand} {layout}",
                    x=x(5, 21, layout=changed.get("x", "contiguous")),
                    w=x(21, 13, layout=changed.get("w", "contiguous")),
                    bias=x(13),
                    residual=x(5, 13, layout=changed.get("residual", "contiguous")),
                    level="core" if operand == "w" else "full",
                )
            )
    for fill in FILLS:
        for activation in (None, "silu"):
            params = {"activation": activation}
            found.append(
                case(
                    f"fill {fill} {activation}",
                    x=x(9, 64, fill=fill),
                    w=x(64, 15),
                    bias=x(15),
                    params=params,
                    level="hostile",
                    # An unfused f16 implementation overflows before silu brings it back.
                    dtypes=() if activation is None else ("float64", "float32", "bfloat16"),
                )
            )
    return found


def _case(
    name: str,
    rows: tuple[int, ...],
    k: int,
    n: int,
    params: dict[str, Any],
    bias: bool,
    residual: bool,
    level: str = "core",
    fill: str = "normal",
) -> Case:
    return case(
        name,
        x=x(*rows, k, fill=fill),
        w=x(k, n, fill=fill),
        bias=x(n, fill=fill) if bias else None,
        residual=x(*rows, n, fill=fill) if residual else None,
        params=params,
        level=level,
    )


_SHAPES: tuple[tuple[tuple[int, ...], int, int], ...] = (
    ((), 16, 8), ((1,), 256, 131), ((1,), 1, 1), ((0,), 4, 3), ((4,), 0, 3), ((4,), 3, 0),
    ((2, 3, 4), 37, 19), ((293,), 17, 5), ((64,), 256, 64), ((2,), 2048, 3),
)  # fmt: skip

OP = Op(NAME, VERSION, OPERANDS, PARAMS, dtypes.FLOATS, bind, cost, reference, tolerance, cases)


def linear(
    x: Any,
    w: Any,
    bias: Any | None = None,
    *,
    residual: Any | None = None,
    activation: str | None = None,
) -> Any:
    """y = act(x @ w + bias) + residual, in one pass.

    x (..., k), w (k, n), bias (n,), residual (..., n) -> (..., n); one float dtype (float64,
    float32, float16, bfloat16). activation: None, "relu", "gelu", "gelu_tanh" or "silu".

    Raises:
        ShapeError: shapes do not fit; w is (k, n), not torch's (n, k).
        DTypeError: dtypes differ or are not floats.
        ParameterError: an unknown activation.
    """
    return call(OP, (x, w, bias, residual), (activation,))
