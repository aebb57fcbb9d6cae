"""Rows of a table: y[i...] = table[indices[i...]].

table (n, d), indices of any shape and integer dtype -> indices.shape + (d,), the table's dtype
(floats, integers, bool). Indices must lie in [0, n): for others the row is unspecified or the call
raises IndexError, but nothing outside of the table is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array
from portable.engine import call
from portable.errors import ShapeError
from portable.op import Bound, Case, Cost, Op, Problem, TensorSpec
from portable.ops import _bounds as bounds
from portable.ops import _rules as rules
from portable.ops._cases import LAYOUTS, case
from portable.ops._cases import x as tensor

NAME, VERSION, OPERANDS = "embedding", 1, ("table", "indices")
PARAMS: Mapping[str, Any] = {}
DTYPES = tuple(n for n, d in dtypes.DTYPES.items() if d.kind != "c")


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks dtypes and shapes."""
    rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    table, indices = specs["table"], specs["indices"]
    rules.dtype_in(NAME, "table", table, DTYPES)
    rules.dtype_in(NAME, "indices", indices, ("int64", *dtypes.INTEGERS[1:]))
    rules.exactly(NAME, "table", table, 2, "(rows, features)")
    if not table.shape[0] and indices.size:
        raise ShapeError(
            f"embedding: the table {table.shape} has no row, but {indices.size} indices are given"
        )
    result = TensorSpec((*indices.shape, table.shape[1]), table.dtype)
    return rules.problem(NAME, VERSION, OPERANDS, specs, {}, (result,))


def cost(problem: Problem) -> Cost:
    """No arithmetic; the indices, the gathered rows, and the result."""
    table, indices = problem["table"], problem["indices"]
    # A row is read once however often it is asked for; which are asked for twice is not known, so
    # it is one row per index, but never more than the table.
    rows = min(indices.size, table.shape[0]) * table.shape[1] * table.itemsize
    return Cost((), indices.touched_bytes + rows, problem.results[0].nbytes)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """NumPy's indexing; floats in float64 (exact)."""
    table, indices = arrays
    return ((bounds.wide(table) if dtypes.is_float(problem.dtype) else table)[indices],)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """Exact: values are copied."""
    return (bounds.EXACT,)


def cases() -> Sequence[Case]:
    """Shapes of indices, index dtypes, tails, layouts, integer tables, NaN."""
    found = []
    shapes: tuple[tuple[tuple[int, int], tuple[int, ...]], ...] = (
        ((64, 32), (17,)), ((131, 37), (3, 5)), ((1, 1), (1,)), ((5, 3), ()), ((7, 0), (4,)),
        ((7, 4), (0,)), ((0, 4), (0,)), ((211, 128), (2, 3, 4)), ((1000, 64), (293,)),
        ((3, 257), (373,)), ((50, 1), (11, 0, 2)),
    )  # fmt: skip
    for table, indices in shapes:
        for dtype in ("int64", "int32"):
            found.append(_case(f"{table} {indices} {dtype}", table, indices, dtype))
    for dtype in ("uint8", "int16", "uint64"):
        found.append(_case(f"indices {dtype}", (60, 24), (41,), dtype, level="full"))
    for layout in LAYOUTS:
        found.append(_case(f"table {layout}", (33, 20), (6, 7), layout=layout))
        found.append(_case(f"indices {layout}", (33, 20), (6, 7), index_layout=layout))
    for fill in ("nan", "inf", "normal*1e4"):
        found.append(_case(f"fill {fill}", (29, 19), (40,), fill=fill, level="hostile"))
    for own in ("int8", "int32", "int64", "bool"):
        found.append(_case(f"table of {own}", (29, 19), (40,), own=own, level="full"))
    return found


def _case(
    name: str,
    table: tuple[int, int],
    indices: tuple[int, ...],
    dtype: str = "int64",
    fill: str = "normal",
    layout: str = "contiguous",
    index_layout: str = "contiguous",
    own: str = "",
    level: str = "core",
) -> Case:
    return case(
        name,
        table=tensor(*table, fill=fill, layout=layout, dtype=own),
        indices=tensor(*indices, fill=f"index:{table[0]}", dtype=dtype, layout=index_layout),
        level=level,
    )


OP = Op(NAME, VERSION, OPERANDS, PARAMS, DTYPES, bind, cost, reference, tolerance, cases)


def embedding(table: Any, indices: Any) -> Any:
    """y = table[indices]: one row of the table (n, d) per index.

    indices: any shape, any integer dtype, values in [0, n) -> indices.shape + (d,).

    Raises:
        ShapeError: the table is not 2-d, or has no row to take.
        DTypeError: the table is complex, or the indices are no integers.
    """
    return call(OP, (table, indices), ())
