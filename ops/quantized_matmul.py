"""Product of quantized matrices: y = (scale_a a) @ (scale_b b), rounded to out_dtype once.

a (m, k) and b (k, n), both int8 or both float8_e4m3fn. Scales are float32 and multiply; each is one
of: per tensor (); per row (m, 1) / per column (1, n); per block of B: scale_a (m, ceil(k/B)) holds
for 1 x B values, scale_b (ceil(k/B), ceil(n/B)) for B x B values. out_dtype: float32, float16,
bfloat16. int8 products sum exactly in int32, fp8 ones in float32 (a shorter accumulator, such as
the tensor cores of some GPUs keep for fp8, is outside of the error bound).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.engine import call
from portable.errors import DTypeError, ParameterError, ShapeError
from portable.op import Bound, Case, Cost, Op, Problem, TensorSpec, Work
from portable.ops import _bounds as bounds
from portable.ops import _rules as rules
from portable.ops._cases import LAYOUTS, case
from portable.ops._cases import x as tensor

NAME, VERSION, OPERANDS = "quantized_matmul", 1, ("a", "b", "scale_a", "scale_b")
PARAMS: Mapping[str, Any] = {"out_dtype": "float32", "block": None}
DTYPES = ("int8", "float8_e4m3fn")
OUT_DTYPES = ("float32", "float16", "bfloat16")
_BLOCKS = (128, 64, 32, 256, 16, 512, 8)  # tried in this order when the block is not given


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks dtypes and shapes, and finds the block from the scales' shapes."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    out = _out_dtype(given["out_dtype"])
    a, b, scale_a, scale_b = (specs[name] for name in OPERANDS)
    for name in ("a", "b"):
        rules.dtype_in(NAME, name, specs[name], DTYPES)
        rules.exactly(NAME, name, specs[name], 2, "(m, k)" if name == "a" else "(k, n)")
        rules.dtype_in(NAME, f"scale_{name}", specs[f"scale_{name}"], ("float32",))
    rules.same_dtype(NAME, specs, ("a", "b"))
    if a.shape[1] != b.shape[0]:
        raise ShapeError(
            f"quantized_matmul: a {a.shape} has {a.shape[1]} columns but b {b.shape} has "
            f"{b.shape[0]} rows; both must be k"
        )
    block = _block(given["block"], a.shape, b.shape, scale_a.shape, scale_b.shape)
    complete = {"out_dtype": out, "block": block}
    result = TensorSpec((a.shape[0], b.shape[1]), out)
    return rules.problem(NAME, VERSION, OPERANDS, specs, complete, (result,))


def _out_dtype(value: Any) -> str:
    try:
        name = dtypes.canonical(value) if isinstance(value, str) else repr(value)
    except DTypeError:
        name = repr(value)
    if name not in OUT_DTYPES:
        raise DTypeError(
            f"quantized_matmul: out_dtype is {name}; it must be one of {', '.join(OUT_DTYPES)}"
        )
    return name


Shape = tuple[int, ...]


def _blocked(block: int, a: Shape, b: Shape) -> tuple[Shape, Shape]:
    """Shapes of scales per block."""
    inner, outer = -(-a[1] // block), -(-b[1] // block)
    return (a[0], inner), (inner, outer)


def _block(given: Any, a: Shape, b: Shape, scale_a: Shape, scale_b: Shape) -> int:
    """The block B, 0 when no scale is per block."""
    coarse_a, coarse_b = scale_a in ((), (a[0], 1)), scale_b in ((), (1, b[1]))
    tried: tuple[int, ...] = _BLOCKS
    if given is not None:
        number = rules.integer(NAME, "block", given)
        if number < 0:
            raise ParameterError(f"{NAME}: block is {number}; it must be positive, or 0 for none")
        tried = (number,) if number else ()
    if coarse_a and coarse_b and not given:
        return 0
    for block in tried:
        fine_a, fine_b = (
            scale == per_block
            for scale, per_block in zip((scale_a, scale_b), _blocked(block, a, b), strict=True)
        )
        if (fine_a or fine_b) and (fine_a or coarse_a) and (fine_b or coarse_b):
            return block
    raise ShapeError(
        f"quantized_matmul: scale_a {scale_a} and scale_b {scale_b} do not fit a {a} and b {b}"
        f"{'' if given is None else f' with block {given}'}; allowed are () per tensor, "
        f"({a[0]}, 1) per row of a, (1, {b[1]}) per column of b, or, at least one of them, "
        f"(m, ceil(k/B)) and (ceil(k/B), ceil(n/B)) per block B. B not given is sought among "
        f"{', '.join(map(str, _BLOCKS))}"
    )


def cost(problem: Problem) -> Cost:
    """2 m n k matrix operations in the quantized type; scaling of sums in float32."""
    (m, k), n = problem["a"].shape, problem["b"].shape[1]
    # The two scales are multiplied once per pair and applied to each partial sum: one product per
    # result, or a multiply-add per block of k.
    block = problem.param("block")
    blocks = -(-k // block) if block else 1
    scaling = m * n * (2 * blocks - 1) if k else 0
    work = (Work("matrix", problem.dtype, 2.0 * m * n * k), Work("vector", "float32", scaling))
    reads = sum(t.touched_bytes for t in problem.tensors) if m * n else 0
    return Cost(work, reads, problem.results[0].nbytes)


def _scaled(values: Array, scale: Array, block: int, axes: tuple[int, ...]) -> Array:
    """The dequantized matrix in float64; along `axes` a scale holds for `block` values."""
    scale = bounds.wide(scale)
    for axis in axes if scale.ndim else ():
        if scale.shape[axis] > 1:  # a single one holds for all
            scale = np.repeat(scale, block, axis)
    if scale.ndim:
        scale = scale[: values.shape[0], : values.shape[1]]
    return np.asarray(bounds.wide(values) * scale)


def dequantized(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, Array]:
    """scale_a a and scale_b b in float64."""
    a, b, scale_a, scale_b = arrays
    block = problem.param("block")
    blocked_a = block and scale_a.shape != (a.shape[0], 1)
    blocked_b = block and scale_b.shape != (1, b.shape[1])
    return (
        _scaled(a, scale_a, block, (1,) if blocked_a else ()),
        _scaled(b, scale_b, block, (0, 1) if blocked_b else ()),
    )


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The product of the dequantized matrices in float64."""
    a, b = dequantized(problem, arrays)
    with np.errstate(all="ignore"):
        return (np.matmul(a, b),)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """(2 sqrt(k) + 4) u32 (|a| @ |b|) + 1.01 u_out |y|; whole numbers that fit are exact."""
    (y,) = expected
    a, b = dequantized(problem, arrays)
    u, k, out = dtypes.roundoff("float32"), a.shape[1], problem.results[0].dtype
    with np.errstate(all="ignore"):
        magnitude = np.matmul(np.abs(a), np.abs(b))
        if bounds.whole(u, (*map(bounds.wide, arrays), a, b), magnitude, y, out):
            return (bounds.EXACT,)
        worst, typical = bounds.summation(u, k, magnitude, y)
        worst, typical = worst + 4 * u * magnitude, typical + 2 * u * np.abs(y)
    return (bounds.bound(out, y, worst, typical),)


_SHAPES = (
    (16, 32, 24), (131, 211, 37), (1, 256, 64), (5, 1, 3), (1, 1, 1), (0, 8, 4), (4, 0, 3),
    (3, 8, 0), (7, 1000, 5), (33, 128, 65),
)  # fmt: skip


def cases() -> Sequence[Case]:
    """Scales per tensor, row and block; both types; tails, layouts, exact sums."""
    found = []
    for m, k, n in _SHAPES:
        for out in OUT_DTYPES:
            found.append(_case(f"{m}x{k}x{n} {out}", m, k, n, (m, 1), (1, n), out))
            found.append(_case(f"{m}x{k}x{n} {out} tensor", m, k, n, (), (), out, level="full"))
    blocked = ((4, 256, 128, 128), (5, 300, 200, 128), (131, 96, 37, 32), (3, 17, 40, 16))
    for m, k, n, block in blocked:
        sizes = _blocked(block, (m, k), (k, n))
        for out in OUT_DTYPES:
            found.append(_case(f"block {block} {m}x{k}x{n} {out}", m, k, n, *sizes, out, block))
        found.append(_case(f"row and block {block} {k}", m, k, n, (m, 1), sizes[1], block=block))
        found.append(_case(f"block {block} and column {k}", m, k, n, sizes[0], (1, n), block=block))
        found.append(_case(f"block {block} and tensor {k}", m, k, n, sizes[0], (), block=block))
    for layout in LAYOUTS:
        found.append(_case(f"a {layout}", 9, 40, 7, (9, 1), (1, 7), layout=layout))
        found.append(_case(f"b {layout}", 9, 40, 7, (9, 1), (1, 7), layout_b=layout))
    pairs: tuple[tuple[Shape, Shape], ...] = (((), ()), ((17, 1), (1, 11)))
    for pair in pairs:
        name = f"exact {pair[0]}"
        found.append(_case(name, 17, 64, 11, *pair, fill="integers", scale="ones"))
    found.append(_case("full range", 8, 512, 8, (), (), fill="full", level="hostile"))
    found.append(_case("zeros", 8, 64, 8, (), (), fill="zeros", level="hostile"))
    return found


def _case(
    name: str,
    m: int,
    k: int,
    n: int,
    scale_a: Shape,
    scale_b: Shape,
    out: str = "float32",
    block: int | None = None,
    fill: str = "normal",
    scale: str = "positive",
    layout: str = "contiguous",
    layout_b: str = "contiguous",
    level: str = "core",
) -> Case:
    return case(
        name,
        a=tensor(m, k, fill=fill, layout=layout),
        b=tensor(k, n, fill=fill, layout=layout_b),
        scale_a=tensor(*scale_a, fill=scale, dtype="float32"),
        scale_b=tensor(*scale_b, fill=scale, dtype="float32"),
        params={"out_dtype": out, "block": block},
        level=level,
    )


OP = Op(NAME, VERSION, OPERANDS, PARAMS, DTYPES, bind, cost, reference, tolerance, cases)


def quantized_matmul(
    a: Any, b: Any, scale_a: Any, scale_b: Any, *, out_dtype: Any, block: int | None = None
) -> Any:
    """y = (scale_a a) @ (scale_b b) in out_dtype.

    a (m, k), b (k, n): both int8 or both float8_e4m3fn. Scales, float32: () per tensor; (m, 1) per
    row of a, (1, n) per column of b; (m, ceil(k/B)) and (ceil(k/B), ceil(n/B)) per block of B.
    out_dtype: float32, float16 or bfloat16, as a name or a dtype. block: B, when the shapes leave
    it open (128 is tried first).

    Raises:
        ShapeError: shapes do not fit, or no block explains the scales.
        DTypeError: a, b, a scale or out_dtype of another dtype.
    """
    return call(OP, (a, b, scale_a, scale_b), (_name(out_dtype), block))


def _name(dtype: Any) -> Any:
    """The name of a dtype given as a name, NumPy or torch dtype, or scalar type."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name)
