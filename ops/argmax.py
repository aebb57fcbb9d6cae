"""Index of the largest element along one axis: the first of equals.

The first NaN wins, as in NumPy. x of any shape -> int64; axis None means the index into the
flattened (row-major) array. Takes float64, float32, float16, bfloat16, integers and bool. The
largest of nothing is an error.
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
from portable.ops import _reductions as reductions
from portable.ops import _rules as rules
from portable.ops._cases import FILLS, LAYOUTS, case
from portable.ops._cases import x as tensor

NAME, VERSION, OPERANDS = "argmax", 1, ("x",)
PARAMS, DTYPES = reductions.PARAMS, reductions.DTYPES


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks the dtype, the axis, keepdims, and that there is something to compare."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    x, axis = specs["x"], given["axis"]
    rules.dtype_in(NAME, "x", x, DTYPES)
    keepdims = rules.flag(NAME, "keepdims", given["keepdims"])
    if axis is not None:
        axis = rules.axis(NAME, "x", x, axis)
    over = tuple(range(x.ndim)) if axis is None else (axis,)
    shape = rules.reduced(x.shape, over, keepdims)
    if 0 in [x.shape[i] for i in over]:
        raise ShapeError(
            f"argmax: x of shape {x.shape} has no element along axis {axis}; the largest of "
            f"nothing does not exist. Check for an empty array before the call"
        )
    complete = {"axis": axis, "keepdims": keepdims}
    return rules.problem(NAME, VERSION, OPERANDS, specs, complete, (TensorSpec(shape, "int64"),))


def cost(problem: Problem) -> Cost:
    """One comparison per element, less one per result."""
    x, y = problem["x"], problem.results[0]
    work = (Work("vector", dtypes.accumulator(x.dtype), float(max(x.size - y.size, 0))),)
    return Cost(work, x.touched_bytes, y.nbytes)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """NumPy's argmax."""
    (x,) = arrays
    if 0 in problem.results[0].shape:
        return (np.zeros(problem.results[0].shape, np.int64),)
    if dtypes.is_float(problem.dtype):
        x = bounds.wide(x)
    found = np.argmax(x, axis=problem.param("axis"), keepdims=problem.param("keepdims"))
    return (np.asarray(found, np.int64),)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """Exact."""
    return (bounds.EXACT,)


def cases() -> Sequence[Case]:
    """Axes, flattened, ties, NaN, layouts, integers."""
    found = []
    for axis in (None, 0, 1, -1):
        for keepdims in (False, True):
            params = {"axis": axis, "keepdims": keepdims}
            found.append(case(f"{axis} {keepdims}", x=tensor(7, 13, 29), params=params))
    for shape, over in (((), None), ((1,), 0), ((131,), 0), ((1, 293), 1), ((373, 1), 0),
                        ((0, 4), 1), ((4, 0), 0), ((3, 5000), 1), ((20000,), None)):  # fmt: skip
        found.append(case(f"{shape} over {over}", x=tensor(*shape), params={"axis": over}))
    for layout in LAYOUTS:
        for over in (None, 0, 1):
            operand = tensor(23, 31, layout=layout)
            found.append(case(f"{layout} over {over}", x=operand, params={"axis": over}))
    for fill in (*FILLS, "integers", "-inf rows"):
        operand = tensor(6, 515, fill=fill)
        found.append(case(f"fill {fill}", x=operand, params={"axis": 1}, level="hostile"))
    for dtype in ("int8", "uint8", "int32", "int64", "bool"):
        operand = tensor(11, 67, fill="full", dtype=dtype)
        found.append(case(dtype, x=operand, params={"axis": 1}, level="full"))
    return found


OP = Op(NAME, VERSION, OPERANDS, PARAMS, DTYPES, bind, cost, reference, tolerance, cases)


def argmax(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Index (int64) of the largest element of x along `axis` (None: of the flattened array).

    The first of equals; the first NaN wins.

    Raises:
        ShapeError: the axis is out of range, or there is nothing to compare.
        DTypeError: x is complex, float8 or no number.
        ParameterError: axis or keepdims of the wrong type.
    """
    return call(OP, (x,), (rules.frozen(axis), keepdims))
