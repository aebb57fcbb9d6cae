"""Rotary position embedding: pairs (x1, x2) of the last axis are rotated by the position's angle.

    y1 = x1 cos - x2 sin,   y2 = x2 cos + x1 sin

x (..., s, d), d even; cos, sin (s, d/2) or broadcastable to (..., s, d/2) -> the shape of x.
interleaved False: pair i is (x[i], x[i + d/2]) (Llama, GPT-NeoX); True: (x[2i], x[2i + 1]) (GPT-J).
Float dtypes float64, float32, float16, bfloat16; the tables have x's dtype or float32. Half types
are computed in float32 and rounded once.
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
from portable.ops import _rules as rules
from portable.ops._cases import FILLS, LAYOUTS, case
from portable.ops._cases import x as tensor

NAME, VERSION, OPERANDS = "rope", 1, ("x", "cos", "sin")
PARAMS: Mapping[str, Any] = {"interleaved": False}


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks dtypes, shapes and the flag."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    interleaved = rules.flag(NAME, "interleaved", given["interleaved"])
    x, cos, sin = (specs[name] for name in OPERANDS)
    rules.dtype_in(NAME, "x", x, dtypes.FLOATS)
    rules.at_least(NAME, "x", x, 2, "(..., sequence, head_dim)")
    if x.shape[-1] % 2:
        raise ShapeError(f"rope: the last axis of x {x.shape} is odd; it must hold pairs")
    for name, table in (("cos", cos), ("sin", sin)):
        _check_table(name, table, x)
    rules.same_dtype(NAME, specs, ("cos", "sin"))
    return rules.problem(NAME, VERSION, OPERANDS, specs, {"interleaved": interleaved}, (x.dense(),))


def _check_table(name: str, table: TensorSpec, x: TensorSpec) -> None:
    rules.dtype_in(NAME, name, table, tuple(dict.fromkeys((x.dtype, "float32"))))
    full = (*x.shape[:-1], x.shape[-1] // 2)
    if table.ndim and table.shape[-1] == full[-1] and rules.broadcastable(table.shape, full):
        return
    hint = ""
    if table.ndim and table.shape[-1] == x.shape[-1] != full[-1]:
        hint = f" Tables that repeat each angle are cut in half: {name}[..., :{full[-1]}]."
    raise ShapeError(
        f"rope: {name} has shape {table.shape}; it must be (sequence, head_dim / 2) = {full[-2:]} "
        f"or broadcast to {full}.{hint}"
    )


def cost(problem: Problem) -> Cost:
    """Per pair four products and two additions."""
    x = problem["x"]
    work = (Work("vector", dtypes.accumulator(x.dtype), 3.0 * x.size),)
    reads = sum(t.touched_bytes for t in problem.tensors) if x.size else 0
    return Cost(work, reads, problem.results[0].nbytes)


def _rotated(x: Array, cos: Array, sin: Array, interleaved: bool, size: bool = False) -> Array:
    """The rotation in float64; with `size` the sum of the absolute values of the two products."""
    half = x.shape[-1] // 2
    first, second = (
        (slice(0, None, 2), slice(1, None, 2))
        if interleaved
        else (slice(0, half), slice(half, None))
    )
    x1, x2 = x[..., first], x[..., second]
    y = np.empty_like(x)
    with np.errstate(all="ignore"):
        if size:
            y[..., first] = np.abs(x1 * cos) + np.abs(x2 * sin)
            y[..., second] = np.abs(x2 * cos) + np.abs(x1 * sin)
        else:
            y[..., first] = x1 * cos - x2 * sin
            y[..., second] = x2 * cos + x1 * sin
    return y


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """In float64."""
    x, cos, sin = map(bounds.wide, arrays)
    return (_rotated(x, cos, sin, problem.param("interleaved")),)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """2 u_acc (|x1 cos| + |x2 sin|) + 1.01 u_out |y|: two products, one difference."""
    x, cos, sin = map(bounds.wide, arrays)
    size = _rotated(x, cos, sin, problem.param("interleaved"), size=True)
    return (bounds.bound(problem.dtype, expected[0], 2 * bounds.u_acc(problem) * size),)


def cases() -> Sequence[Case]:
    """Both pairings, broadcast tables, float32 tables, layouts, tails, hostile values."""
    found = []
    shapes: tuple[tuple[int, ...], ...] = (
        (2, 4, 16, 32), (1, 2), (1, 1, 1, 2), (131, 64), (3, 37, 10), (1, 8, 1, 128),
        (2, 0, 5, 8), (2, 3, 0, 8), (4, 0), (2, 2, 211, 6),
    )  # fmt: skip
    for interleaved in (False, True):
        for shape in shapes:
            found.append(_case(f"{shape} {interleaved}", shape, interleaved))
        table = (2, 1, 7, 8)
        found.append(_case(f"own tables {interleaved}", (2, 3, 7, 16), interleaved, table))
        found.append(_case(f"one row {interleaved}", (2, 3, 7, 16), interleaved, (1, 8)))
        found.append(
            _case(
                f"f32 tables {interleaved}",
                (2, 3, 7, 16),
                interleaved,
                dtype="float32",
                dtypes_=("float32", "float16", "bfloat16", "float64"),
            )
        )
        for layout in LAYOUTS:
            found.append(_case(f"{layout} {interleaved}", (2, 5, 12), interleaved, layout=layout))
        for fill in FILLS:
            found.append(
                _case(
                    f"fill {fill} {interleaved}",
                    (3, 16, 34),
                    interleaved,
                    fill=fill,
                    level="hostile",
                )
            )
    return found


def _case(
    name: str,
    shape: tuple[int, ...],
    interleaved: bool,
    table: tuple[int, ...] | None = None,
    dtype: str = "",
    fill: str = "normal",
    layout: str = "contiguous",
    level: str = "core",
    dtypes_: tuple[str, ...] = (),
) -> Case:
    angles = table or (shape[-2], shape[-1] // 2)
    return case(
        name,
        x=tensor(*shape, fill=fill, layout=layout),
        cos=tensor(*angles, fill="cos", dtype=dtype),
        sin=tensor(*angles, fill="sin", dtype=dtype),
        params={"interleaved": interleaved},
        level=level,
        dtypes=dtypes_,
    )


OP = Op(NAME, VERSION, OPERANDS, PARAMS, dtypes.FLOATS, bind, cost, reference, tolerance, cases)


def rope(x: Any, cos: Any, sin: Any, *, interleaved: bool = False) -> Any:
    """Rotates pairs of the last axis: y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin.

    x (..., s, d); cos, sin (s, d/2) or broadcastable to (..., s, d/2), of x's dtype or float32.
    Pairs are (x[i], x[i + d/2]), or (x[2i], x[2i + 1]) when interleaved. Shape and dtype of x
    (float64, float32, float16, bfloat16).

    Raises:
        ShapeError: d is odd, or the tables do not fit.
        DTypeError: x is no float, or the tables have another dtype.
        ParameterError: interleaved is not a bool.
    """
    return call(OP, (x, cos, sin), (interleaved,))
