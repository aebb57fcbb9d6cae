"""MLIR text of the ops, with static shapes. Every function is @main: tensors in, one tensor out."""

from __future__ import annotations

from collections.abc import Sequence

TYPES = {"float64": "f64", "float32": "f32", "float16": "f16"}


def tensor(shape: Sequence[int], dtype: str) -> str:
    """tensor<7x33xf32>."""
    return f"tensor<{''.join(f'{n}x' for n in shape)}{TYPES[dtype]}>"


def matmul(batch: int, m: int, k: int, n: int, dtype: str) -> str:
    """(batch, m, k) @ (batch, k, n); half types accumulate in float32."""
    wide = "float32" if dtype == "float16" else dtype
    a, b = tensor((batch, m, k), dtype), tensor((batch, k, n), dtype)
    sums, result = tensor((batch, m, n), wide), tensor((batch, m, n), dtype)
    body = f"""
  %zero = arith.constant 0.0 : {TYPES[wide]}
  %empty = tensor.empty() : {sums}
  %start = linalg.fill ins(%zero : {TYPES[wide]}) outs(%empty : {sums}) -> {sums}
  %y = linalg.batch_matmul ins(%a, %b : {a}, {b}) outs(%start : {sums}) -> {sums}"""
    last = "%y"
    if wide != dtype:
        body += _narrowed((batch, m, n), sums, result, TYPES[wide], TYPES[dtype])
        last = "%narrow"
    return _main(f"%a: {a}, %b: {b}", result, body, last)


def softmax(rows: int, n: int, dtype: str) -> str:
    """Over the last axis of (rows, n)."""
    x = tensor((rows, n), dtype)
    body = f"""
  %empty = tensor.empty() : {x}
  %y = linalg.softmax dimension(1) ins(%x : {x}) outs(%empty : {x}) -> {x}"""
    return _main(f"%x: {x}", x, body, "%y")


BLOCK = 64
"""Elements of a row that are summed one after the other: what is lost beside an outlier is lost
within its block only."""


def rms_norm(rows: int, n: int, eps: float, dtype: str) -> str:
    """x / sqrt(mean(x^2) + eps) * weight; x (rows, n), weight (n)."""
    t, x, w, r = TYPES[dtype], tensor((rows, n), dtype), tensor((n,), dtype), tensor((rows,), dtype)
    blocks = -(-n // BLOCK)
    padded, cut = tensor((rows, blocks * BLOCK), dtype), tensor((rows, blocks, BLOCK), dtype)
    parts = tensor((rows, blocks), dtype)
    body = f"""
  %zero = arith.constant 0.0 : {t}
  %n = arith.constant {n:.17e} : {t}
  %eps = arith.constant {eps:.17e} : {t}
  %padded = tensor.pad %x low[0, 0] high[0, {blocks * BLOCK - n}] {{
    ^bb0(%i: index, %k: index):
      tensor.yield %zero : {t}
  }} : {x} to {padded}
  %cut = tensor.expand_shape %padded [[0], [1, 2]] output_shape [{rows}, {blocks}, {BLOCK}]
      : {padded} into {cut}
  %room = tensor.empty() : {parts}
  %none = linalg.fill ins(%zero : {t}) outs(%room : {parts}) -> {parts}
  %parts = linalg.generic {{
      indexing_maps = [affine_map<(i, p, k) -> (i, p, k)>, affine_map<(i, p, k) -> (i, p)>],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%cut : {cut}) outs(%none : {parts}) {{
    ^bb0(%v: {t}, %sum: {t}):
      %square = arith.mulf %v, %v : {t}
      %more = arith.addf %sum, %square : {t}
      linalg.yield %more : {t}
  }} -> {parts}
  %sums = tensor.empty() : {r}
  %start = linalg.fill ins(%zero : {t}) outs(%sums : {r}) -> {r}
  %squares = linalg.generic {{
      indexing_maps = [affine_map<(i, p) -> (i, p)>, affine_map<(i, p) -> (i)>],
      iterator_types = ["parallel", "reduction"]}} ins(%parts : {parts}) outs(%start : {r}) {{
    ^bb0(%v: {t}, %sum: {t}):
      %more = arith.addf %sum, %v : {t}
      linalg.yield %more : {t}
  }} -> {r}
  %empty = tensor.empty() : {x}
  %y = linalg.generic {{
      indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>,
                       affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i, k)>],
      iterator_types = ["parallel", "parallel"]}}
      ins(%x, %squares, %w : {x}, {r}, {w}) outs(%empty : {x}) {{
    ^bb0(%v: {t}, %sum: {t}, %weight: {t}, %old: {t}):
      %mean = arith.divf %sum, %n : {t}
      %safe = arith.addf %mean, %eps : {t}
      %root = math.sqrt %safe : {t}
      %unit = arith.divf %v, %root : {t}
      %scaled = arith.mulf %unit, %weight : {t}
      linalg.yield %scaled : {t}
  }} -> {x}"""
    return _main(f"%x: {x}, %w: {w}", x, body, "%y")


def swiglu(count: int, dtype: str) -> str:
    """gate / (1 + exp(-gate)) * up, elements in a row."""
    t, x = TYPES[dtype], tensor((count,), dtype)
    body = f"""
  %one = arith.constant 1.0 : {t}
  %empty = tensor.empty() : {x}
  %y = linalg.generic {{
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}} ins(%gate, %up : {x}, {x}) outs(%empty : {x}) {{
    ^bb0(%g: {t}, %u: {t}, %old: {t}):
      %minus = arith.negf %g : {t}
      %power = math.exp %minus : {t}
      %below = arith.addf %power, %one : {t}
      %silu = arith.divf %g, %below : {t}
      %v = arith.mulf %silu, %u : {t}
      linalg.yield %v : {t}
  }} -> {x}"""
    return _main(f"%gate: {x}, %up: {x}", x, body, "%y")


def _narrowed(shape: Sequence[int], wide: str, narrow: str, t_wide: str, t_narrow: str) -> str:
    axes = ", ".join(f"d{i}" for i in range(len(shape)))
    same = f"affine_map<({axes}) -> ({axes})>"
    parallel = ", ".join(['"parallel"'] * len(shape))
    return f"""
  %room = tensor.empty() : {narrow}
  %narrow = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{parallel}]}}
      ins(%y : {wide}) outs(%room : {narrow}) {{
    ^bb0(%v: {t_wide}, %old: {t_narrow}):
      %cut = arith.truncf %v : {t_wide} to {t_narrow}
      linalg.yield %cut : {t_narrow}
  }} -> {narrow}"""


def _main(arguments: str, result: str, body: str, last: str) -> str:
    return f"func.func @main({arguments}) -> {result} {{{body}\n  return {last} : {result}\n}}\n"
