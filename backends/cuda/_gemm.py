"""Matrix products: which kernel, tile and split for a problem; used by matmul, linear, conv2d.

mma    f16 and bf16 on the matrix units (sm_75 f16; sm_80 and later both)
simt   every type on the vector units
gemv   at most 8 rows: the weights are read once
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from portable import dtypes
from portable.backend import Config
from portable.backends.cuda._build import C_TYPES
from portable.backends.cuda._plan import THREADS, blocks, merged, strides
from portable.backends.cuda._runtime import Launch, Pointer, Runtime
from portable.backends.cuda._targets import Target
from portable.op import TensorSpec

ACTIVATIONS = {None: 0, "relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 4}
GEMV_ROWS = 8
Multiply = Callable[[Any, Any, Any, Any, Any], None]
"""`multiply(out, a, b, bias, residual)`; absent ones are any array, they are not read."""


@dataclass(frozen=True, slots=True)
class View:
    """A batch of matrices in memory: strides in elements.

    Attributes:
        shape: rows, columns.
        steps: strides of rows and columns.
        batch: strides of the batch axes (0 where broadcast).
    """

    shape: tuple[int, int]
    steps: tuple[int, int]
    batch: tuple[int, ...] = ()

    @property
    def adjacent(self) -> int | None:
        """Axis (0 or 1) whose elements are neighbours, columns preferred; None if neither."""
        (rows, cols), (row, col) = self.shape, self.steps
        if col == 1 or cols == 1:
            return 1
        return 0 if row == 1 or rows == 1 else None

    @property
    def lead(self) -> int:
        """Stride of the other axis; for a single row or column any number does."""
        axis = self.adjacent
        other = 0 if axis == 1 else 1
        if self.shape[other] == 1:
            return 0
        return self.steps[other]

    def vector(self, dtype: str) -> bool:
        """Whether every row starts on 16 bytes (if the tensor does) and is whole in them."""
        axis, wide = self.adjacent, 16 // dtypes.itemsize(dtype)
        if axis is None or (self.shape[axis] > 1 and self.steps[axis] != 1):
            return False
        numbers = (self.lead, self.shape[axis], *self.batch)
        return all(number % wide == 0 for number in numbers)


@dataclass(frozen=True, slots=True)
class Product:
    """C = act(A B + bias) + residual, for each matrix of a batch.

    Attributes:
        dtype: of all operands.
        a, b: where the matrices lie.
        batch: extents of the batch axes.
        activation, bias, residual: the epilogue.
        tf32: float32 may be rounded to tf32.
    """

    dtype: str
    a: View
    b: View
    batch: tuple[int, ...] = ()
    activation: str | None = None
    bias: bool = False
    residual: bool = False
    tf32: bool = False

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Matrices, m, n, k."""
        return math.prod(self.batch), self.a.shape[0], self.b.shape[1], self.a.shape[1]


def view(spec: TensorSpec, batch: Sequence[int] = (), *, column: bool = False) -> View:
    """A tensor as a batch of matrices; a 1-D one is a row (or a column)."""
    shape, steps = spec.shape, strides(spec)
    if len(shape) == 1:
        if column:
            return View((shape[0], 1), (steps[0], 0), (0,) * len(batch))
        return View((1, shape[0]), (0, steps[0]), (0,) * len(batch))
    lead = [0 if extent == 1 else step for extent, step in zip(shape[:-2], steps[:-2], strict=True)]
    missing = len(batch) - len(lead)
    return View((shape[-2], shape[-1]), (steps[-2], steps[-1]), (*(0,) * missing, *lead))


def kinds(product: Product, target: Target) -> list[str]:
    """Kernels that can compute the product, the likely best first."""
    batch, m, _, _ = product.sizes
    found = []
    if batch == 1 and m <= GEMV_ROWS and product.b.adjacent is not None and _floating(product):
        found.append("gemv")
    if _matrix_unit(product.dtype, target) and None not in (product.a.adjacent, product.b.adjacent):
        found.append("mma")
    wide = product.dtype == "float64" or (product.dtype == "float32" and product.tf32)
    if wide and target.capability >= 80:
        found.append("wide")
    return [*found, "simt"]


def _floating(product: Product) -> bool:
    return dtypes.is_float(product.dtype)


def _matrix_unit(dtype: str, target: Target) -> bool:
    if dtype == "float16":
        return target.nvidia and target.capability >= 75
    return dtype == "bfloat16" and target.capability >= 80


# Tiles of the matrix-unit kernel: block, warps, stages. The first that the shape fills is the
# default; its accumulators and fragments stay within 255 registers on every target.
MMA_TILES = (
    {"bm": 128, "bn": 128, "bk": 32, "warps_m": 2, "warps_n": 4, "stages": 3},
    {"bm": 64, "bn": 128, "bk": 32, "warps_m": 2, "warps_n": 2, "stages": 3},
    {"bm": 64, "bn": 64, "bk": 64, "warps_m": 2, "warps_n": 2, "stages": 3},
    {"bm": 16, "bn": 64, "bk": 64, "warps_m": 1, "warps_n": 4, "stages": 4},
    {"bm": 128, "bn": 256, "bk": 32, "warps_m": 2, "warps_n": 4, "stages": 3},
    {"bm": 128, "bn": 128, "bk": 64, "warps_m": 2, "warps_n": 2, "stages": 3},
)
WIDE_TILES = (
    {"bm": 64, "bn": 64, "bk": 16, "warps_m": 2, "warps_n": 2},
    {"bm": 128, "bn": 64, "bk": 16, "warps_m": 4, "warps_n": 2},
)
SIMT_TILES = (
    {"bm": 128, "bn": 128, "bk": 8, "tm": 8, "tn": 8},
    {"bm": 64, "bn": 64, "bk": 16, "tm": 4, "tn": 4},
    {"bm": 32, "bn": 32, "bk": 16, "tm": 4, "tn": 4},
)


def mma_shared(config: Config) -> int:
    """Shared memory of the pipeline [B]: 16-bit tiles, rows padded by 8 elements, worst layout."""
    bm, bn, bk = int(config["bm"]), int(config["bn"]), int(config["bk"])
    a = max(bm * (bk + 8), bk * (bm + 8))
    b = max(bn * (bk + 8), bk * (bn + 8))
    return 2 * int(config["stages"]) * (a + b)


def configs(product: Product, target: Target) -> list[dict[str, int | str | bool]]:
    """Configs worth trying, the best guess first."""
    batch, m, n, k = product.sizes
    found: list[dict[str, int | str | bool]] = []
    for kind in kinds(product, target):
        if kind == "gemv":
            found.append({"kind": kind, "split": _gemv_split(product, target)})
        elif kind == "mma":
            fitting = [t for t in MMA_TILES if mma_shared(t) <= target.shared]
            tiles = sorted(fitting, key=lambda t: _tile_cost(t, batch, m, n, k, target))
            found += [
                {"kind": kind, **t, "split": _mma_split(t, batch, m, n, k, target)} for t in tiles
            ]
        elif kind == "wide":
            # The larger tile of doubles exceeds the 48 KiB that need not be asked for.
            tiles_of = WIDE_TILES[:1] if product.dtype == "float64" else WIDE_TILES
            order = sorted(tiles_of, key=lambda t: _tile_cost(t, batch, m, n, k, target))
            found += [{"kind": kind, **t} for t in order]
        else:
            allowed = SIMT_TILES[1:] if dtypes.itemsize(product.dtype) == 8 else SIMT_TILES
            order = sorted(allowed, key=lambda t: _tile_cost(t, batch, m, n, k, target))
            found += [{"kind": kind, **t} for t in order]
    return found


def _tile_cost(
    tile: Config, batch: int, m: int, n: int, k: int, target: Target
) -> tuple[float, int]:
    """Waves of blocks x the work of one, with the tile's own inefficiency; small is good."""
    bm, bn = int(tile["bm"]), int(tile["bn"])
    count = batch * -(-m // bm) * -(-n // bn)
    waves = -(-count // target.parallel)
    # Bytes a tile reads per product fall with 1/bm + 1/bn: below the ridge for small tiles.
    slow = 1.0 + 24.0 * (1.0 / bm + 1.0 / bn)
    return waves * bm * bn * slow, MMA_TILES.index(tile) if tile in MMA_TILES else 0


def _mma_split(tile: Config, batch: int, m: int, n: int, k: int, target: Target) -> int:
    """Parts of k when the tiles alone leave most of the device idle."""
    count = batch * -(-m // int(tile["bm"])) * -(-n // int(tile["bn"]))
    steps = -(-k // int(tile["bk"]))
    return max(1, min(target.parallel // max(count, 1), steps // 8, 16))


def _gemv_split(product: Product, target: Target) -> int:
    _, _, n, k = product.sizes
    if product.b.adjacent != 1:
        return 1  # one warp a column: enough of them
    columns = 16 * (16 // dtypes.itemsize(product.dtype))
    return max(1, min(4 * target.parallel // max(-(-n // columns), 1), k // 256, 64))


def build(product: Product, config: Config, runtime: Runtime, aligned: bool) -> Multiply:
    """The launches of a product. The output must be dense and is written completely."""
    batch, m, n, _ = product.sizes
    if batch * m * n == 0:
        return lambda *arrays: None
    return _BUILDERS[str(config["kind"])](product, config, runtime, aligned)


def _macros(product: Product) -> dict[str, int | str]:
    return {
        "T": C_TYPES[product.dtype],
        "ACT": ACTIVATIONS[product.activation],
        "BIAS": int(product.bias),
        "RESIDUAL": int(product.residual),
    }


def _batches(product: Product) -> tuple[list[int], list[int], list[int], list[tuple[int, ...]]]:
    """The two innermost merged batch axes as (extents, strides of A, of B), and what is outside.

    The outer part is a list of (matrix index, offset of A, offset of B): one launch each.
    """
    extents, (sa, sb) = merged(product.batch, [product.a.batch, product.b.batch])
    outer = extents[:-2]
    inner, ia, ib = extents[-2:], sa[-2:], sb[-2:]
    while len(inner) < 2:
        inner, ia, ib = [1, *inner], [0, *ia], [0, *ib]
    places = []
    for number, index in enumerate(itertools.product(*map(range, outer))):
        offsets = [
            sum(i * s for i, s in zip(index, steps, strict=False)) for steps in (sa[:-2], sb[:-2])
        ]
        places.append((number * math.prod(inner), *offsets))
    return inner, ia, ib, places


def _finisher(product: Product, runtime: Runtime, splits: int) -> Launch:
    return runtime.kernel("_gemm_finish.cu", "gemm_finish", _macros(product), THREADS)


def _build_mma(product: Product, config: Config, runtime: Runtime, aligned: bool) -> Multiply:
    _, m, n, k = product.sizes
    item, splits = dtypes.itemsize(product.dtype), int(config["split"])
    block = 32 * int(config["warps_m"]) * int(config["warps_n"])
    macros = _macros(product) | {
        name.upper(): int(config[name]) for name in ("bm", "bn", "bk", "warps_m", "warps_n")
    }
    macros |= {
        "STAGES": int(config["stages"]),
        "SPLIT": int(splits > 1),
        "PAIRS": int(n % 2 == 0),
        "A_K": int(product.a.adjacent == 1),
        "B_N": int(product.b.adjacent == 1),
        "VA": int(aligned and product.a.vector(product.dtype)),
        "VB": int(aligned and product.b.vector(product.dtype)),
    }
    launch = runtime.kernel("_gemm_mma.cu", "gemm_mma", macros, block, mma_shared(config))
    finish = _finisher(product, runtime, splits) if splits > 1 else None
    inner, ia, ib, places = _batches(product)
    matrices = math.prod(inner)
    tiles = -(-m // int(config["bm"])) * -(-n // int(config["bn"]))
    grid = (tiles, splits, min(matrices, 65535))
    lda, ldb = product.a.lead, product.b.lead

    def multiply(out: Any, a: Any, b: Any, bias: Any, residual: Any) -> None:
        total = matrices * m * n
        partial = runtime.empty((splits, total), "float32") if finish else out
        for first, oa, ob in places:
            c = Pointer(runtime.pointer(out) + first * m * n * item)
            r = Pointer(runtime.pointer(residual) + first * m * n * item)
            pa = Pointer(runtime.pointer(a) + oa * item)
            pb = Pointer(runtime.pointer(b) + ob * item)
            sizes = (m, n, k, lda, ldb, matrices, inner[1], ia[0], ia[1], ib[0], ib[1])
            launch(grid, c, partial, pa, pb, bias, r, *sizes)
            if finish:
                finish((blocks(total), 1, 1), c, partial, bias, r, total, n, splits)

    return multiply


def _build_simt(product: Product, config: Config, runtime: Runtime, aligned: bool) -> Multiply:
    _, m, n, k = product.sizes
    item = dtypes.itemsize(product.dtype)
    wide, bm, bn = config["kind"] == "wide", int(config["bm"]), int(config["bn"])
    names = ("warps_m", "warps_n") if wide else ("tm", "tn")
    each = [int(config[name]) for name in names]
    block = 32 * each[0] * each[1] if wide else bm * bn // (each[0] * each[1])
    macros = _macros(product) | {
        name.upper(): int(config[name]) for name in ("bm", "bn", "bk", *names)
    }
    macros |= {"A_K": int(product.a.adjacent == 1), "B_N": int(product.b.adjacent == 1)}
    name = "gemm_wide" if wide else "gemm_simt"
    launch = runtime.kernel(f"_{name}.cu", name, macros, block)
    inner, ia, ib, places = _batches(product)
    matrices = math.prod(inner)
    grid = (-(-m // bm) * -(-n // bn), 1, min(matrices, 65535))

    def multiply(out: Any, a: Any, b: Any, bias: Any, residual: Any) -> None:
        for first, oa, ob in places:
            c = Pointer(runtime.pointer(out) + first * m * n * item)
            r = Pointer(runtime.pointer(residual) + first * m * n * item)
            pa = Pointer(runtime.pointer(a) + oa * item)
            pb = Pointer(runtime.pointer(b) + ob * item)
            sizes = (m, n, k, *product.a.steps, *product.b.steps)
            batch = (matrices, inner[1], ia[0], ia[1], ib[0], ib[1])
            launch(grid, c, pa, pb, bias, r, *sizes, *batch)

    return multiply


def _build_gemv(product: Product, config: Config, runtime: Runtime, aligned: bool) -> Multiply:
    _, m, n, k = product.sizes
    splits, along_n = int(config["split"]), product.b.adjacent == 1
    # Powers of two: few variants, rows beyond m are not stored.
    rows = 1 << max(m - 1, 0).bit_length()
    wide = 16 // dtypes.itemsize(product.dtype)
    vec = wide if aligned and product.b.vector(product.dtype) else 1
    macros = _macros(product) | {
        "M": rows, "VEC": vec, "THREADS": THREADS, "B_N": int(along_n), "SPLIT": int(splits > 1),
    }  # fmt: skip
    launch = runtime.kernel("_gemv.cu", "gemv", macros, THREADS)
    finish = _finisher(product, runtime, splits) if splits > 1 else None
    columns = 16 * vec if along_n else THREADS // runtime.target.warp
    grid = (-(-n // columns), splits, 1)
    accumulator = dtypes.accumulator(product.dtype)

    def multiply(out: Any, a: Any, b: Any, bias: Any, residual: Any) -> None:
        partial = runtime.empty((splits, m * n), accumulator) if finish else out
        sizes = (m, n, k, *product.a.steps, product.b.lead)
        launch(grid, out, partial, a, b, bias, residual, *sizes)
        if finish:
            total = m * n
            finish((blocks(total), 1, 1), out, partial, bias, residual, total, n, splits)

    return multiply


_BUILDERS = {"mma": _build_mma, "wide": _build_simt, "simt": _build_simt, "gemv": _build_gemv}
