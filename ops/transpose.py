"""Axes in another order, written out: y[i_axes[0], i_axes[1], ...] = x[i_0, i_1, ...].

x of any shape and dtype -> contiguous in the new order. axes None reverses all axes, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.engine import call
from portable.errors import ParameterError, ShapeError
from portable.op import Bound, Case, Cost, Op, Problem, TensorSpec
from portable.ops import _bounds as bounds
from portable.ops import _rules as rules
from portable.ops._cases import LAYOUTS, case
from portable.ops._cases import x as tensor

NAME, VERSION, OPERANDS = "transpose", 1, ("x",)
PARAMS: Mapping[str, Any] = {"axes": None}
DTYPES = tuple(dtypes.DTYPES)


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks that axes is a permutation."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    x = specs["x"]
    rules.dtype_in(NAME, "x", x, DTYPES)
    axes = _permutation(x, given["axes"])
    result = TensorSpec(tuple(x.shape[i] for i in axes), x.dtype)
    return rules.problem(NAME, VERSION, OPERANDS, specs, {"axes": axes}, (result,))


def _permutation(x: TensorSpec, axes: Any) -> tuple[int, ...]:
    if axes is None:
        return tuple(reversed(range(x.ndim)))
    if not isinstance(axes, tuple | list):
        raise ParameterError(f"transpose: axes is {axes!r}; it must be a tuple of integers or None")
    found = tuple(rules.axis(NAME, "x", x, a) for a in axes)
    if sorted(found) != list(range(x.ndim)):
        raise ShapeError(
            f"transpose: axes {tuple(axes)} do not name each of the {x.ndim} axes of x {x.shape} "
            f"once"
        )
    return found


def cost(problem: Problem) -> Cost:
    """No arithmetic; every element read and written once."""
    return Cost((), problem["x"].touched_bytes, problem.results[0].nbytes)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """NumPy's transpose; real floats in float64 (exact)."""
    (x,) = arrays
    if dtypes.is_float(problem.dtype):
        x = bounds.wide(x)
    return (np.ascontiguousarray(np.transpose(x, problem.param("axes"))).reshape(
        problem.results[0].shape),)  # fmt: skip


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """Exact: values are moved."""
    return (bounds.EXACT,)


def cases() -> Sequence[Case]:
    """Every permutation of three axes, tails, layouts, integers, NaN and infinities."""
    found = []
    for axes in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0), (-1, 0, 1)):
        found.append(case(f"{axes}", x=tensor(5, 37, 18), params={"axes": axes}))
    shapes = ((), (7,), (1, 1), (131, 211), (1, 293), (64, 64), (0, 3), (3, 0), (33, 65), (257, 3))
    for shape in shapes:
        found.append(case(f"reversed axes of {shape}", x=tensor(*shape)))
    four = ((0, 2, 1, 3), (0, 3, 1, 2), (0, 2, 3, 1), (3, 1, 0, 2))
    for axes4 in four:
        found.append(case(f"{axes4}", x=tensor(2, 5, 7, 6), params={"axes": axes4}))
    for layout in LAYOUTS:
        found.append(case(layout, x=tensor(23, 31, layout=layout)))
        operand = tensor(3, 9, 14, layout=layout)
        found.append(case(f"{layout} 3-d", x=operand, params={"axes": (1, 0, 2)}, level="full"))
    for fill in ("nan", "inf"):
        found.append(case(f"fill {fill}", x=tensor(9, 33, fill=fill), level="hostile"))
    for dtype in ("int8", "uint16", "int32", "int64", "bool"):
        found.append(case(dtype, x=tensor(21, 34, fill="full", dtype=dtype), level="full"))
    return found


OP = Op(NAME, VERSION, OPERANDS, PARAMS, DTYPES, bind, cost, reference, tolerance, cases)


def transpose(x: Any, axes: Sequence[int] | None = None) -> Any:
    """x with its axes in the order `axes` (None: reversed), as a new contiguous array.

    Any shape and dtype.

    Raises:
        ShapeError: axes do not name each axis once.
        ParameterError: axes is not a tuple of integers.
    """
    return call(OP, (x,), (rules.frozen(axes),))
