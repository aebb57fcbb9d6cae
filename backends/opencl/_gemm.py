"""Matrix products for matmul and linear: shapes, strides, batches, and which kernel does them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from portable.backend import Config
from portable.backends.opencl._launch import Array
from portable.backends.opencl._plan import (
    Builder,
    asks_ahead,
    broadcast,
    collapse,
    is_cpu,
    strides_of,
    vector_width,
)
from portable.device import Device
from portable.op import Problem, TensorSpec

MAX_BATCH_AXES = 3
FILES = ("_panels.cl", "_activations.cl", "_micro.cl", "gemm.cl")
MAX_SKINNY = 32
"""Rows up to which a product is bound by streaming the other matrix."""
_DOT_TILES = ((2, 8), (3, 4), (4, 4), (5, 4), (6, 4))
"""Rows of A x rows of B whose dot products are kept in 32 vector registers."""
_ROWS_AT_ONCE = 8
"""Rows of B whose dot products are taken side by side where one is not asked for ahead."""
_STREAMED = 1 << 20
"""Elements of B from which it pays to read whole rows and to add up parts in a second launch: at
this size 72 GB/s instead of 63 on Intel's runtime, 25 instead of 26 on PoCL (f32, Zen 5)."""
SKINNY_FILES = ("_panels.cl", "_activations.cl", "_few_rows.cl", "skinny.cl")
GEMV_FILES = ("_panels.cl", "_activations.cl", "_few_rows.cl", "gemv.cl")
TILED_FILES = ("_activations.cl", "tiled.cl")
ACTIVATIONS = {None: 0, "relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 4}


@dataclass(frozen=True, slots=True)
class Gemm:
    """C (m, n) = A (m, k) B (k, n) for each of a batch; strides in elements.

    Attributes:
        batch: axes (extent, stride in A, stride in B), at most three.
    """

    m: int
    n: int
    k: int
    a_row: int
    a_col: int
    b_row: int
    b_col: int
    batch: tuple[tuple[int, int, int], ...] = ()

    @property
    def count(self) -> int:
        """Number of products."""
        return int(np.prod([d[0] for d in self.batch], dtype=np.int64)) if self.batch else 1


def describe(a: TensorSpec, b: TensorSpec) -> Gemm:
    """The product of two tensors by NumPy's rules."""
    sa, sb = strides_of(a), strides_of(b)
    m, k = (1, a.shape[0]) if a.ndim == 1 else a.shape[-2:]
    n = 1 if b.ndim == 1 else b.shape[-1]
    a_row, a_col = (0, sa[0]) if a.ndim == 1 else sa[-2:]
    b_row, b_col = (sb[0], 1) if b.ndim == 1 else sb[-2:]
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    la = strides_of(broadcast(TensorSpec(a.shape[:-2], a.dtype, sa[:-2]), lead))
    lb = strides_of(broadcast(TensorSpec(b.shape[:-2], b.dtype, sb[:-2]), lead))
    batch = collapse(list(zip(lead, la, lb, strict=True)))
    gemm = Gemm(m, n, k, a_row, a_col, b_row, b_col, tuple(batch))
    return _absorb(gemm)


def _absorb(g: Gemm) -> Gemm:
    """Batch axes of A become rows when B is the same for all of them."""
    while g.batch and g.batch[-1][2] == 0 and (g.batch[-1][1] == g.m * g.a_row or g.m == 1):
        extent, step, _ = g.batch[-1]
        a_row = step if g.m == 1 else g.a_row
        g = replace(g, m=g.m * extent, a_row=a_row, batch=g.batch[:-1])
    return g


def tile_rows(m: int, most: int) -> int:
    """Rows of the register tile: `most` or a few less, so that the last tile wastes little."""
    sizes = (most, most - 2, most - 6, most - 10) if most > 10 else (most, most - 2)
    return min((r for r in sizes if r > 0), key=lambda r: (-(-m // r) * r * (1 + 1 / r), -r))


def packed_config(g: Gemm, dtype: str, device: Device) -> dict[str, int | str | bool]:
    """Tile sizes by register file, cache and number of cores."""
    vector = vector_width(device, dtype)
    wide = vector * (8 if dtype == "float64" else 4) >= 64  # 32 registers with 512-bit vectors
    rows, vectors = (14, 2) if wide else (6, 2)
    mr = tile_rows(g.m, rows)
    nr = vectors * vector
    narrow = dtype != "float64"
    ahead = int(asks_ahead(device))
    mb, nb = _blocks(g, mr, nr, _LIMITS[ahead, narrow], max(device.info.units, 1))
    kc = 256 if narrow else 192
    return {
        "kind": "gemm", "mr": mr, "nv": vectors, "kc": kc, "mb": mb, "nb": nb, "ahead": ahead,
        "vector": vector,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the blocks of C.

    Attributes:
        rows: of a block at the most.
        packing: rows of C in whose time a panel of B is packed (and columns, of A).
        size: elements of C that fit in the L2 cache beside a block of A.
    """

    rows: int
    packing: int
    size: float = math.inf


_LIMITS = {
    (1, True): Limits(400, 20), (1, False): Limits(252, 20),
    (0, True): Limits(560, 60, 270_000), (0, False): Limits(364, 60, 170_000),
}  # fmt: skip
"""By whether it is asked ahead and whether elements are narrower than float64. Measured on Zen 5
where it is, on a Xeon with 2 MiB of L2 cache where it is not."""


def _blocks(g: Gemm, mr: int, nr: int, limits: Limits, units: int) -> tuple[int, int]:
    """Rows and columns of the blocks of C, of one size, with the least time by a simple model.

    Packing costs the less the larger the blocks are; the cores get whole blocks, and wait for the
    last one for a part of its time.
    """
    rows, columns = math.ceil(g.m / mr), math.ceil(g.n / nr)
    high, wide = math.ceil(g.m / limits.rows), math.ceil(columns * nr / 1024)

    def time(cut: tuple[int, int]) -> float:
        mb, nb = math.ceil(rows / cut[0]) * mr, math.ceil(columns / cut[1]) * nr
        tiles = g.count * math.ceil(g.m / mb) * math.ceil(g.n / nb)
        spilled = 1.1 if mb * nb > limits.size else 1.0
        packed = 1 + limits.packing / mb + limits.packing / nb
        return spilled * mb * nb * packed * (math.ceil(tiles / units) + 0.25)

    cuts = [
        (h, w)
        for h in range(high, min(high + 3, rows) + 1)
        for w in range(wide, min(wide + 8 * units, columns) + 1)
    ]
    h, w = min(cuts, key=time)
    return math.ceil(rows / h) * mr, math.ceil(columns / w) * nr


def skinny_config(g: Gemm, dtype: str, device: Device) -> dict[str, int | str | bool] | None:
    """Streams B when A has few rows (or A, transposed, when B has few columns); None if neither."""
    swap = g.n < g.m
    f = _swapped(g) if swap else g
    vector, units = vector_width(device, dtype), max(device.info.units, 1)
    if g.batch or f.m > MAX_SKINNY:
        return None
    if f.b_row == 1 and f.k > 1:
        mc, r, kind = (
            (*_dot_tile(f.m), "skinny_nt")
            if f.m > 1
            else (1, 1 if asks_ahead(device) else _ROWS_AT_ONCE, "gemv_nt")
        )
        strip = max(vector, min(64, f.n // (8 * units) // vector * vector))
    elif f.b_col == 1 and f.m == 1 and f.k * f.n >= _STREAMED:
        mc, r, kind, strip = 1, 4, "gemv_nn", 0
    elif f.b_col == 1 and f.m <= 14:
        mc, r, kind = 1, 1, "skinny_nn"
        size = 8 if dtype == "float64" else 4
        most = (16384 // size // f.m) // vector * vector
        strip = max(4 * vector, min(most, -(-f.n // (2 * units)) // vector * vector))
    else:
        return None
    return {"kind": kind, "mc": mc, "r": r, "strip": strip, "vector": vector, "swap": swap}


def _dot_tile(m: int) -> tuple[int, int]:
    """Rows of A x rows of B of the dot products that are kept in registers.

    B does not lie on cache lines in general, so that a vector of it takes two loads.
    """
    time = {(mc, r): -(-m // mc) * max(mc * r, mc + 2 * r) / r for mc, r in _DOT_TILES}
    return min(_DOT_TILES, key=lambda tile: (time[tile], -tile[0]))


def _swapped(g: Gemm) -> Gemm:
    """The transposed product: C' = B' A'."""
    return replace(
        g, m=g.n, n=g.m, a_row=g.b_col, a_col=g.b_row, b_row=g.a_col, b_col=g.a_row, batch=()
    )


def configs(g: Gemm, dtype: str, device: Device) -> list[Config]:
    """The default first, then other cache blocks and register tiles."""
    if 0 in (g.m, g.n, g.k, g.count):
        return [{}]  # nothing to tune in an empty product
    if not is_cpu(device):
        return [{"kind": "tiled"}]
    first = packed_config(g, dtype, device)
    skinny = skinny_config(g, dtype, device)
    if skinny is not None:
        tile = (skinny["mc"], skinny["r"])
        tiles: dict[str, Config] = {
            "skinny_nt": {"mc": 4, "r": 4} if tile != (4, 4) else {"mc": 2, "r": 8},
            "gemv_nn": {"r": 8},
            "gemv_nt": {"r": _ROWS_AT_ONCE if skinny["r"] == 1 else 1},
        }
        kind = str(skinny["kind"])
        return [skinny, first, *([{**skinny, **tiles[kind]}] if kind in tiles else [])]
    found: list[Config] = [first]
    changes = (
        {"ahead": 1 - int(first["ahead"])},
        {"kc": 384},
        {"kc": 128},
        {"mb": 2 * int(first["mb"])},
        {"nb": 2 * int(first["nb"])},
    )
    for change in changes:
        if (other := {**first, **change}) not in found:
            found.append(other)
    return found


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What happens to a tile of C before it is stored."""

    bias: Array | None = None
    residual: Array | None = None
    residual_stride: int = 0
    activation: str | None = None


def add_gemm(
    b: Builder, g: Gemm, x: Array, y: Array, out: Array, config: Config, epilogue: Epilogue
) -> None:
    """Append the launch of a product."""
    extra: list[Any] = [epilogue.bias or x, epilogue.residual or x]
    flags = [np.int32(epilogue.bias is not None), np.int32(epilogue.residual is not None)]
    act = f"-DACT={ACTIVATIONS[epilogue.activation]}"
    kind = str(config["kind"])
    if kind.startswith(("skinny", "gemv")):
        _add_few_rows(b, g, x, y, out, config, [*extra, *flags], epilogue.residual_stride, act)
        return
    batch = [(1, 0, 0)] * (MAX_BATCH_AXES - len(g.batch)) + list(g.batch)
    shape = [g.m, g.n, g.k, g.a_row, g.a_col, g.b_row, g.b_col]
    axes = [d[i] for i in range(3) for d in batch]
    extra += [epilogue.residual_stride, *flags]
    if kind == "tiled":
        count = g.count * -(-g.m // 64) * -(-g.n // 64)
        b.step("tiled", TILED_FILES, count, [x, y, out, *extra, *shape, *axes], [act], local=256)
        return
    c = {name: int(v) for name, v in config.items() if name != "kind"}
    c.setdefault("ahead", 1)  # as in choices frozen before there was one
    options = [f"-D{name.upper()}={c[name]}" for name in ("mr", "nv", "kc", "ahead")] + [act]
    if b.device.runtime != "oclgrind":  # which does not know the instruction
        options.append("-DPREFETCH")
    tiles = g.count * -(-g.m // c["mb"]) * -(-g.n // c["nb"])
    count = max(1, min(tiles, b.device.info.units))
    size = 8 if b.dtype == "float64" else 4
    nr = c["nv"] * c["vector"]
    panel = c["mr"] * (c["kc"] + c["vector"]) if c["ahead"] else c["mr"] * c["kc"] + c["vector"]
    elements = c["mb"] // c["mr"] * panel + c["kc"] * nr + c["mb"] * c["nb"]
    scratch = b.scratch(count * elements * size)
    counter = b.scratch(64, zeroed=64)
    kb = -(-g.k // -(-g.k // c["kc"]))  # blocks of K of one size
    blocks = [np.int32(v) for v in (c["mb"], c["nb"], kb)]
    b.step(
        "gemm",
        FILES,
        count,
        [x, y, out, *extra, scratch, counter, *shape, *axes, *blocks],
        options,
        per_unit=1,
    )


def _add_few_rows(
    b: Builder,
    g: Gemm,
    x: Array,
    y: Array,
    out: Array,
    config: Config,
    extra: list[Any],
    residual_stride: int,
    act: str,
) -> None:
    """Append the launch that streams the larger matrix, and for `gemv_nn` the sum of its parts."""
    swap, strip, kind = bool(config["swap"]), int(config["strip"]), str(config["kind"])
    f = _swapped(g) if swap else g
    rows = -(-f.k // (64 * max(b.device.info.units, 1))) * 4  # of B, that a group takes at once
    tasks = -(-f.k // rows) if kind == "gemv_nn" else -(-f.n // strip)
    count = max(1, min(tasks, b.device.info.units))
    scratch = b.scratch(count * _scratch_of(f, config) * (8 if b.dtype == "float64" else 4))
    counter = b.scratch(64, zeroed=64)
    shape = [f.m, f.n, f.k, f.a_row, f.a_col, f.b_row, f.b_col]
    strides = [1, g.n, 1, 0, 1, residual_stride] if swap else [g.n, 1, 0, 1, residual_stride, 1]
    arrays = [y, x] if swap else [x, y]
    arguments = [*arrays, out, *extra, scratch, counter, *shape, *strides, np.int32(strip)]
    options = [f"-DMC={config['mc']}", f"-DR={config['r']}", act]
    if b.device.runtime != "oclgrind":  # which does not know the instruction
        options.append("-DPREFETCH")
    files = GEMV_FILES if kind.startswith("gemv") else SKINNY_FILES
    more = [rows] if kind == "gemv_nn" else []
    b.step(kind, files, count, [*arguments, *more], options, per_unit=1)
    if kind == "gemv_nn":
        b.step("gemv_sum", files, -(-f.n // 1024), [*arguments, count], options, per_unit=1)


def _scratch_of(f: Gemm, config: Config) -> int:
    """Elements of scratch of one group; as the kernels divide them."""
    kind, vector, mc = config["kind"], int(config["vector"]), int(config["mc"])
    rows = -(-f.m // mc) * mc
    wide = -(-f.k // vector) * vector + vector
    if kind == "gemv_nn":
        return -(-f.n // vector) * vector
    columns = {"gemv_nt": vector, "skinny_nt": vector * (int(config["r"]) + 1)}
    return rows * (wide + columns.get(str(kind), int(config["strip"])))


def why_not_shape(problem: Problem, a: str, b: str) -> list[str]:
    """A reason when the batch has more separate axes than the kernels take."""
    g = describe(problem[a], problem[b])
    if len(g.batch) > MAX_BATCH_AXES:
        return [f"{len(g.batch)} separate batch axes (takes {MAX_BATCH_AXES})"]
    return []
