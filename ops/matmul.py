"""Matrix product: y[..., i, j] = sum over k of a[..., i, k] * b[..., k, j].

Shapes as in `numpy.matmul`: a (..., m, k), b (..., k, n) -> (..., m, n); leading (batch) axes
broadcast; a 1-D a is a row (its axis is dropped from the result), a 1-D b a column; 0-d is refused;
k = 0 gives zeros. Floats: float64, float32, float16, bfloat16; half types accumulate in float32.
Integers and bool as in NumPy: the result has the operands' dtype and wraps around; bool is "any".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.engine import call_pair
from portable.errors import ShapeError
from portable.op import Bound, Case, Cost, Op, Problem, TensorSpec, Work
from portable.ops import _bounds as bounds
from portable.ops import _rules as rules
from portable.ops._cases import FILLS, LAYOUTS, case, x

NAME, VERSION, OPERANDS = "matmul", 1, ("a", "b")
PARAMS: Mapping[str, Any] = {}
DTYPES = (*dtypes.FLOATS, *dtypes.INTEGERS, "bool")


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks dtypes and shapes by NumPy's rules."""
    rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    a, b = specs["a"], specs["b"]
    for name, spec in (("a", a), ("b", b)):
        rules.dtype_in(NAME, name, spec, DTYPES)
        rules.at_least(NAME, name, spec, 1, "at least one axis (use * to scale by a number)")
    rules.same_dtype(NAME, specs, OPERANDS)
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ShapeError(_mismatch(a, b))
    batch = rules.broadcast(NAME, {"a": a.shape[:-2], "b": b.shape[:-2]})
    rows = a.shape[-2:-1]
    columns = b.shape[-1:] if b.ndim > 1 else ()
    result = TensorSpec(batch + rows + columns, a.dtype)
    return rules.problem(NAME, VERSION, OPERANDS, specs, {}, (result,))


def _mismatch(a: TensorSpec, b: TensorSpec) -> str:
    inner = b.shape[-2 if b.ndim > 1 else 0]
    hint = ""
    if b.ndim > 1 and a.shape[-1] == b.shape[-1]:
        hint = " Did you mean b transposed in its last two axes (b.mT, or b.T when 2-d)?"
    return (
        f"matmul: the last axis of a {a.shape} has {a.shape[-1]} elements but the "
        f"{'second to last' if b.ndim > 1 else 'only'} axis of b {b.shape} has {inner}; "
        f"both must be the same k.{hint}"
    )


def extents(problem: Problem) -> tuple[int, int, int, int]:
    """(batch, m, n, k): one call as so many products of (m, k) by (k, n)."""
    a, b = problem["a"], problem["b"]
    m = a.shape[-2] if a.ndim > 1 else 1
    n = b.shape[-1] if b.ndim > 1 else 1
    batch = math.prod(rules.broadcast(NAME, {"a": a.shape[:-2], "b": b.shape[:-2]}))
    return batch, m, n, a.shape[-1]


def cost(problem: Problem) -> Cost:
    """2 batch m n k operations; a, b (a broadcast axis once) and the result once."""
    batch, m, n, k = extents(problem)
    # One multiply and one add per (batch, i, j, k). Every element of a and b is used when the
    # result is not empty; an empty result needs no reads.
    reads = sum(t.touched_bytes for t in problem.tensors) if batch * m * n else 0
    work = Work("matrix", problem.dtype, 2.0 * batch * m * n * k)
    return Cost((work,), reads, problem.results[0].nbytes)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """numpy.matmul in float64; integers and bool in their own dtype."""
    a, b = arrays
    if not dtypes.is_float(problem.dtype):
        return (np.matmul(a, b),)
    with np.errstate(all="ignore"):
        return (np.asarray(np.matmul(bounds.wide(a), bounds.wide(b))),)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """2 sqrt(k) u_acc (|a| @ |b|) + 1.01 u_out |ref|; integers exact. "high": tf32 inputs."""
    if not dtypes.is_float(problem.dtype):
        return (bounds.EXACT,)
    (ref,) = expected
    a, b = map(bounds.wide, arrays)
    with np.errstate(all="ignore"):
        magnitude = np.matmul(np.abs(a), np.abs(b))
        if bounds.whole(bounds.u_acc(problem), (a, b), magnitude, ref, problem.dtype):
            return (bounds.EXACT,)
        worst, typical = bounds.product(problem, a.shape[-1], magnitude, ref)
    return (bounds.bound(problem.dtype, ref, worst, typical),)


def cases() -> Sequence[Case]:
    """Squares, tails, primes, batches, layouts, integers, hostile values."""
    found = [case(f"{m}x{k}x{n}", a=x(m, k), b=x(k, n), level=level) for m, k, n, level in _SHAPES]
    found += [case(f"batch {sa} {sb}", a=x(*sa), b=x(*sb), level="full") for sa, sb in _BATCHES]
    for layout in LAYOUTS:
        found.append(case(f"a {layout}", a=x(37, 41, layout=layout), b=x(41, 29)))
        found.append(case(f"b {layout}", a=x(19, 41), b=x(41, 35, layout=layout)))
        both: dict[str, Any] = {"a": x(3, 17, 23, layout=layout), "b": x(3, 23, 9, layout=layout)}
        found.append(case(f"batched {layout}", **both, level="full"))
    for fill in FILLS:
        found.append(case(f"fill {fill}", a=x(33, 129, fill=fill), b=x(129, 21), level="hostile"))
    found.append(case("exact", a=x(64, 211, fill="integers"), b=x(211, 48, fill="integers")))
    found.append(case("exact small", a=x(31, 15, fill="integers"), b=x(15, 33, fill="integers")))
    found.append(case("positive", a=x(16, 1024, fill="uniform"), b=x(1024, 16, fill="uniform")))
    found.append(
        case(
            "both large",
            a=x(8, 64, fill="normal*1e4"),
            b=x(64, 8, fill="normal*1e4"),
            level="hostile",
        )
    )
    for dtype in ("int32", "int8", "uint8", "int64", "bool"):
        found.append(
            case(f"{dtype}", a=x(13, 67, dtype=dtype), b=x(67, 11, dtype=dtype), level="full")
        )
    return found


_SHAPES = (
    (64, 64, 64, "core"), (128, 96, 160, "core"), (1, 256, 256, "core"), (131, 211, 293, "full"),
    (1, 1, 1, "core"), (7, 1, 5, "core"), (5, 0, 3, "core"), (0, 4, 3, "core"), (3, 4, 0, "core"),
    (17, 373, 1, "full"), (129, 65, 33, "full"), (2, 3, 4, "core"), (256, 128, 256, "full"),
    (1, 1024, 131, "full"), (63, 255, 127, "full"), (16, 16, 16, "core"), (8, 2048, 8, "full"),
)  # fmt: skip
_BATCHES = (
    ((64,), (64,)), ((37,), (37, 19)), ((23, 37), (37,)), ((2, 23, 37), (37,)), ((37,), (3, 37, 5)),
    ((4, 16, 24), (4, 24, 8)), ((3, 1, 9, 11), (5, 11, 7)), ((2, 3, 5, 7), (7, 13)),
    ((1, 9, 11), (6, 11, 3)), ((0, 4, 5), (5, 6)), ((2, 0, 5), (2, 5, 6)), ((0,), (0,)),
    ((2, 4, 0), (2, 0, 6)),
)  # fmt: skip

OP = Op(NAME, VERSION, OPERANDS, PARAMS, DTYPES, bind, cost, reference, tolerance, cases)


def matmul(a: Any, b: Any) -> Any:
    """y = a @ b by the rules of `numpy.matmul`, in the array type of a and b.

    a (..., m, k) and b (..., k, n) give (..., m, n); batch axes broadcast, 1-D operands are
    promoted. Both have one dtype: float64, float32, float16, bfloat16 (half types accumulate in
    float32), or an integer type or bool as in NumPy.

    Raises:
        ShapeError: the inner extents differ, batch axes do not broadcast, or an operand is 0-d.
        DTypeError: dtypes differ or are not taken (complex, object, datetime).
    """
    return call_pair(OP, a, b)
