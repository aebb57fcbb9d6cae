"""Problems of matmul and linear as one batched product, and the launches that compute it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portable.backend import Config
from portable.backends.triton import _gemm
from portable.backends.triton._elements import compute_type
from portable.backends.triton._layout import cdiv, collapse, strides_of, wide
from portable.backends.triton._plan import Buffer, Descriptor, Launch, Plan, T
from portable.backends.triton._target import Target
from portable.backends.triton._tiles import Shape
from portable.op import Problem

COMBINE_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class Product:
    """c[batch, m, n] = a @ b with strides (outer batch, inner batch, row, column).

    Attributes:
        shape: extents; batch = outer * inner.
        inner: extent of the inner batch axis.
        a, b, residual: operand name and strides.
        dense: operands to be broadcast and copied first.
    """

    shape: Shape
    inner: int
    a: tuple[str, tuple[int, int, int, int]]
    b: tuple[str, tuple[int, int, int, int]]
    residual: tuple[str, tuple[int, int, int, int]] | None = None
    dense: Mapping[str, tuple[int, ...]] | None = None


def matmul_product(problem: Problem) -> Product:
    """Views of NumPy's matmul rules: 1-D operands, broadcast batches, rows merged into m."""
    a, b = problem["a"], problem["b"]
    sa, sb = strides_of(a), strides_of(b)
    m, k = (1, a.shape[0]) if a.ndim == 1 else a.shape[-2:]
    n = 1 if b.ndim == 1 else b.shape[-1]
    am, ak = (0, sa[0]) if a.ndim == 1 else sa[-2:]
    bk, bn = (sb[0], 0) if b.ndim == 1 else sb[-2:]
    a_batch, b_batch = a.shape[:-2], b.shape[:-2]
    batch = _broadcast(a_batch, b_batch)
    sa_batch = _broadcast_strides(a_batch, sa[: len(a_batch)], batch)
    sb_batch = _broadcast_strides(b_batch, sb[: len(b_batch)], batch)
    if not any(sb_batch):  # one matrix b: the batch is more rows
        merged, (ra,) = collapse([*batch, m], [[*sa_batch, am]])
        if len(merged) == 1:
            return _turned(Shape(1, merged[0], n, k), 1, (0, 0, ra[0], ak), (0, 0, bk, bn), None)
    outer, (ba, bb) = collapse(batch, [sa_batch, sb_batch])
    dense: dict[str, tuple[int, ...]] = {}
    if len(outer) > 2:
        dense = {"a": (*batch, *a.shape[-2:]), "b": (*batch, *b.shape[-2:])}
        outer, ba, bb = [_product(batch)], [m * k], [k * n]
        am, ak, bk, bn = k, 1, n, 1
    (a0, a1), (b0, b1) = [*ba, 0, 0][:2], [*bb, 0, 0][:2]
    inner = outer[1] if len(outer) == 2 else 1
    shape = Shape(_product(outer), m, n, k)
    return _turned(shape, inner, (a0, a1, am, ak), (b0, b1, bk, bn), dense)


def _turned(shape: Shape, inner: int, a: Any, b: Any, dense: Any) -> Product:
    """A matrix times a vector becomes a vector times the transposed matrix."""
    if shape.n == 1 and shape.m > 1:
        turn = [(s[0], s[1], s[3], s[2]) for s in (b, a)]
        return Product(
            Shape(shape.batch, 1, shape.m, shape.k),
            inner,
            ("b", turn[0]),
            ("a", turn[1]),
            None,
            dense,
        )
    return Product(shape, inner, ("a", a), ("b", b), None, dense)


def linear_product(problem: Problem) -> Product:
    """Rows of x (and of the residual) merged where their strides allow."""
    x, w, residual = problem["x"], problem["w"], problem.get("residual")
    k, n = w.shape
    sx = strides_of(x)
    sr = strides_of(residual) if residual else (0,) * x.ndim
    wk, wn = strides_of(w)
    lead = x.shape[:-1]
    outer, (ox, orr) = collapse(lead, [sx[:-1], sr[:-1]])
    dense: dict[str, tuple[int, ...]] = {}
    xk, rn = sx[-1], sr[-1]
    if len(outer) > 3:
        dense = {"x": x.shape} | ({"residual": residual.shape} if residual else {})
        outer, ox, orr, xk, rn = [_product(lead)], [k], [n], 1, 1
    outer, ox, orr = outer or [1], ox or [0], orr or [0]
    m, xm, rm = outer.pop(), ox.pop(), orr.pop()
    (x0, x1), (r0, r1) = [*ox, 0, 0][:2], [*orr, 0, 0][:2]
    inner = outer[1] if len(outer) == 2 else 1
    return Product(
        Shape(_product(outer), m, n, k),
        inner,
        ("x", (x0, x1, xm, xk)),
        ("w", (0, 0, wk, wn)),
        ("residual", (r0, r1, rm, rn)) if residual else None,
        dense,
    )


def plan(problem: Problem, product: Product, target: Target, config: Config) -> Plan:
    """The launches of one config: tiles, a vector, or descriptors; parts of K are combined."""
    if config["variant"] == "descriptor":
        return _descriptor_plan(problem, product, target, config)
    return _strided_plan(problem, product, target, config)


def input_precision(problem: Problem, target: Target) -> str:
    """ "ieee" unless the caller allows less and the unit has it (float32 only)."""
    if problem.dtype != "float32" or problem.precision == "highest":
        return "ieee"
    tf32 = target.capability >= 80 or target.arch == "gfx942"
    return "tf32" if tf32 else "ieee"


def accumulator(dtype: str) -> Any:
    """Integers in int32, float64 in itself, other floats in float32."""
    import triton.language as tl

    return tl.int32 if dtype in ("int8", "uint8") else compute_type(dtype)


def _epilogue(problem: Problem, product: Product) -> dict[str, Any]:
    params = dict(problem.params)
    bias = problem.get("bias")
    r = product.residual[1] if product.residual else (0, 0, 0, 0)
    return {
        "bias": T("bias") if bias else None,
        "bias_n": strides_of(bias)[0] if bias else 0,
        "residual": T("residual") if product.residual else None,
        "r0": r[0], "r1": r[1], "rm": r[2], "rn": r[3],
        "ACTIVATION": params.get("activation") or "",
    }  # fmt: skip


def _strided_plan(problem: Problem, product: Product, target: Target, config: Config) -> Plan:
    shape, out = product.shape, problem.results[0]
    split_k = int(config["split_k"])
    epilogue = _epilogue(problem, product)
    plain = not (epilogue["bias"] or epilogue["residual"] or epilogue["ACTIVATION"])
    vector = config["variant"] == "vector"
    parts = split_k > 1 or (vector and not plain)
    acc_dtype = {"float64": "float64", "int8": "int32", "uint8": "int32"}.get(
        problem.dtype, "float32"
    )
    size = shape.batch * shape.m * shape.n
    buffers = {"out": Buffer(out.shape, out.dtype)}
    if parts:
        buffers["partial"] = Buffer((split_k, size), acc_dtype)
    first = _vector_launch if vector else _tile_launch
    launches = [first(problem, product, target, config, "partial" if parts else "out", epilogue)]
    if parts:
        launches.append(_combine(problem, product, split_k, epilogue))
    return Plan(tuple(launches), buffers, dense=product.dense or {})


def _tile_launch(
    problem: Problem, product: Product, target: Target, config: Config, out: str, epilogue: Any
) -> Launch:
    shape = product.shape
    block_m, block_n = int(config["block_m"]), int(config["block_n"])
    block_k, split_k = int(config["block_k"]), int(config["split_k"])
    (a, (a0, a1, am, ak)), (b, (b0, b1, bk, bn)) = product.a, product.b
    arguments = {
        "a": T(a), "b": T(b), "c": T(out), "M": shape.m, "N": shape.n, "K": shape.k,
        "inner": product.inner, "a0": a0, "a1": a1, "am": am, "ak": ak,
        "a_step": ak * block_k * split_k, "b0": b0, "b1": b1, "bk": bk, "bn": bn,
        "b_step": bk * block_k * split_k, "BLOCK_M": block_m, "BLOCK_N": block_n,
        "BLOCK_K": block_k, "GROUP_M": int(config["group_m"]), "SPLIT_K": split_k,
        "EVEN_M": shape.m % block_m == 0, "EVEN_N": shape.n % block_n == 0,
        "EVEN_K": shape.k % (block_k * split_k) == 0,
        "PRECISION": input_precision(problem, target), "ACC": accumulator(problem.dtype),
        "WIDE": wide(problem), **epilogue,
    }  # fmt: skip
    if split_k > 1:
        arguments |= {"bias": None, "residual": None, "ACTIVATION": ""}
    grid = shape.batch * split_k * cdiv(shape.m, block_m) * cdiv(shape.n, block_n)
    options = {"num_warps": int(config["num_warps"]), "num_stages": int(config["num_stages"])}
    return Launch(_gemm.gemm, grid, arguments, options)


def _vector_launch(
    problem: Problem, product: Product, target: Target, config: Config, out: str, epilogue: Any
) -> Launch:
    shape = product.shape
    block_n, split_k = int(config["block_n"]), int(config["split_k"])
    (a, (a0, a1, _, ak)), (b, (b0, b1, bk, bn)) = product.a, product.b
    arguments = {
        "a": T(a), "b": T(b), "c": T(out), "N": shape.n, "K": shape.k, "inner": product.inner,
        "a0": a0, "a1": a1, "ak": ak, "b0": b0, "b1": b1, "bk": bk, "bn": bn,
        "BLOCK_N": block_n, "BLOCK_K": int(config["block_k"]), "SPLIT_K": split_k,
        "ACC": accumulator(problem.dtype), "WIDE": wide(problem),
    }  # fmt: skip
    options = {"num_warps": int(config["num_warps"]), "num_stages": int(config["num_stages"])}
    return Launch(_gemm.gemv, shape.batch * split_k * cdiv(shape.n, block_n), arguments, options)


def _combine(problem: Problem, product: Product, split_k: int, epilogue: Any) -> Launch:
    shape = product.shape
    size = shape.batch * shape.m * shape.n
    arguments = {
        "partial": T("partial"), "c": T("out"), "size": size, "M": shape.m, "N": shape.n,
        "inner": product.inner, "SPLIT_K": split_k, "BLOCK": COMBINE_BLOCK,
        "ACC": accumulator(problem.dtype), "WIDE": wide(problem), **epilogue,
    }  # fmt: skip
    return Launch(_gemm.combine, cdiv(size, COMBINE_BLOCK), arguments, {"num_warps": 4})


def descriptors_fit(problem: Problem, product: Product, target: Target) -> bool:
    """Whether TMA can be used: sm_90 or later, half types, row-major, 16-byte rows, one matrix."""
    shape = product.shape
    (_, (_, _, am, ak)), (_, (_, _, bk, bn)) = product.a, product.b
    rows = ak == 1 and bn == 1 and am == shape.k and bk == shape.n
    return (
        target.capability >= 90
        and problem.dtype in ("float16", "bfloat16")
        and shape.batch == 1 and shape.m >= 64 and rows
        and shape.k % 8 == 0 and shape.n % 8 == 0
        and product.residual is None and not wide(problem)
    )  # fmt: skip


def _descriptor_plan(problem: Problem, product: Product, target: Target, config: Config) -> Plan:
    shape, out = product.shape, problem.results[0]
    m, n, k = (int(config[f"block_{axis}"]) for axis in "mnk")
    tiles = cdiv(shape.m, m) * cdiv(shape.n, n)
    programs = min(tiles, target.units or 132)
    epilogue = _epilogue(problem, product)
    arguments = {
        "a": Descriptor(product.a[0], (shape.m, shape.k), (m, k)),
        "b": Descriptor(product.b[0], (shape.k, shape.n), (k, n)),
        "c": Descriptor("out", (shape.m, shape.n), (m, n)),
        "M": shape.m, "N": shape.n, "K": shape.k, "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k,
        "GROUP_M": int(config["group_m"]), "PROGRAMS": programs, "WIDE": False,
        "bias": epilogue["bias"], "bias_n": epilogue["bias_n"],
        "ACTIVATION": epilogue["ACTIVATION"],
    }  # fmt: skip
    options = {"num_warps": int(config["num_warps"]), "num_stages": int(config["num_stages"])}
    launch = Launch(_gemm.gemm_descriptor, programs, arguments, options)
    return Plan((launch,), {"out": Buffer(out.shape, out.dtype)}, dense=product.dense or {})


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return tuple(y if x == 1 else x for x, y in pairs)


def _broadcast_strides(
    shape: tuple[int, ...], strides: tuple[int, ...], to: tuple[int, ...]
) -> list[int]:
    kept = [0 if n == 1 else s for n, s in zip(shape, strides, strict=True)]
    return [0] * (len(to) - len(shape)) + kept


def _product(extents: Any) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total
