"""What the reductions share: binding, shapes of results, cases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from portable import dtypes
from portable.op import Case, Problem, TensorSpec
from portable.ops import _rules as rules
from portable.ops._cases import FILLS, LAYOUTS, case, x

PARAMS: Mapping[str, Any] = {"axis": None, "keepdims": False}
DTYPES = (*dtypes.FLOATS, *dtypes.INTEGERS, "bool")


def parse(
    op: str, specs: rules.Specs, params: Mapping[str, Any]
) -> tuple[TensorSpec, dict[str, Any], tuple[int, ...]]:
    """x, the completed parameters (axis: sorted tuple) and the shape of the result."""
    given = rules.complete(op, ("x",), specs, PARAMS, params)
    rules.dtype_in(op, "x", specs["x"], DTYPES)
    axes = rules.axes(op, "x", specs["x"], given["axis"])
    keepdims = rules.flag(op, "keepdims", given["keepdims"])
    shape = rules.reduced(specs["x"].shape, axes, keepdims)
    return specs["x"], {"axis": axes, "keepdims": keepdims}, shape


def length(problem: Problem) -> int:
    """How many elements one result is made of."""
    return math.prod(problem["x"].shape[i] for i in problem.param("axis"))


def how(problem: Problem) -> dict[str, Any]:
    """The parameters as NumPy's reductions take them."""
    return {"axis": problem.param("axis"), "keepdims": problem.param("keepdims")}


def reduction_cases(empty: bool) -> list[Case]:
    """Axes, keepdims, lengths, layouts, integers, hostile values; empty rows if right."""
    found = []
    for axis in (None, 0, 1, -1, (0, 2), (1, 2), (0, 1, 2), ()):
        for keepdims in (False, True):
            params = {"axis": axis, "keepdims": keepdims}
            level = "core" if not keepdims else "full"
            found.append(case(f"{axis} {keepdims}", x=x(7, 13, 29), params=params, level=level))
    shapes = ((), (1,), (131,), (64, 64), (1, 293), (373, 1), (3, 0, 5), (2, 3, 4, 5, 6))
    for shape in shapes:
        if empty or 0 not in shape:
            found.append(case(f"all of {shape}", x=x(*shape)))
    for shape, axis in (((20000,), 0), ((3, 5000), 1), ((5000, 3), 0), ((211, 37), 0)):
        found.append(case(f"{shape} over {axis}", x=x(*shape), params={"axis": axis}, level="full"))
    for shape, axis in (((0, 4), 0), ((4, 0), 1), ((4, 0), 0), ((0,), 0)):
        if empty or shape[axis]:
            found.append(case(f"empty {shape} {axis}", x=x(*shape), params={"axis": axis}))
    for layout in LAYOUTS:
        for axis in (0, 1):
            operand = x(23, 31, layout=layout)
            found.append(case(f"{layout} over {axis}", x=operand, params={"axis": axis}))
        operand = x(3, 4, 65, layout=layout)
        found.append(case(f"{layout} 3-d", x=operand, params={"axis": (0, 2)}, level="full"))
    for fill in (*FILLS, "uniform", "integers", "-inf rows"):
        operand = x(6, 1031, fill=fill)
        found.append(case(f"fill {fill}", x=operand, params={"axis": 1}, level="hostile"))
    for dtype in ("int8", "uint8", "int32", "int64", "uint32", "bool"):
        for axis in (None, 1):
            operand = x(11, 67, fill="full", dtype=dtype)
            found.append(case(f"{dtype} {axis}", x=operand, params={"axis": axis}, level="full"))
    return found
