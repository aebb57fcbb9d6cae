"""Tile sizes of the matrix multiplications, per target, best guess first.

Shapes come from the instruction shapes and register files: an NVIDIA warp group holds a 64-wide
MMA row block, a CDNA wave 64 lanes and 512 registers, an RDNA wave 32 lanes and 256. Every list
was cross-compiled for its targets; shapes that spilled are not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable.backend import Config
from portable.backends.triton._layout import cdiv, next_power_of_2
from portable.backends.triton._target import Target

Tile = tuple[int, int, int, int, int]
"""(block_m, block_n, block_k, num_warps, num_stages)"""

_HOPPER: list[Tile] = [
    (128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (256, 128, 64, 8, 3), (128, 128, 64, 4, 3),
    (64, 256, 64, 4, 3), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4), (64, 64, 64, 4, 4),
    (64, 64, 128, 4, 3), (16, 128, 64, 4, 4), (16, 64, 128, 4, 4), (32, 64, 128, 4, 3),
]  # fmt: skip
_AMPERE: list[Tile] = [
    (128, 256, 32, 8, 3), (128, 128, 64, 8, 3), (128, 128, 32, 4, 4), (256, 64, 32, 4, 3),
    (128, 64, 32, 4, 4), (64, 128, 32, 4, 4), (64, 64, 64, 4, 3), (64, 64, 32, 4, 4),
    (32, 64, 64, 4, 4), (16, 128, 64, 4, 4), (16, 64, 128, 4, 3), (16, 32, 128, 2, 4),
]  # fmt: skip
_CDNA: list[Tile] = [
    (256, 256, 32, 8, 2), (256, 128, 32, 8, 2), (128, 128, 64, 8, 2), (128, 128, 32, 4, 2),
    (128, 64, 64, 4, 2), (64, 128, 64, 4, 2), (64, 64, 64, 4, 2), (32, 64, 64, 4, 2),
    (16, 64, 128, 4, 2), (16, 32, 256, 2, 2), (64, 64, 32, 2, 2),
]  # fmt: skip
_CDNA4: list[Tile] = [
    (256, 128, 64, 8, 2), (128, 128, 64, 8, 2), (128, 128, 64, 4, 2), (128, 256, 64, 8, 2),
    (128, 64, 64, 4, 2), (64, 128, 64, 4, 2), (64, 64, 128, 4, 2), (32, 64, 128, 4, 2),
    (16, 64, 128, 4, 2), (16, 32, 256, 2, 2), (64, 64, 64, 2, 2),
]  # fmt: skip
_RDNA: list[Tile] = [
    (128, 128, 32, 8, 2), (128, 64, 32, 4, 2), (64, 128, 32, 4, 2), (64, 64, 64, 4, 2),
    (64, 64, 32, 4, 2), (32, 64, 64, 4, 2), (16, 64, 64, 4, 2), (16, 32, 128, 2, 2),
]  # fmt: skip
_FMA32: list[Tile] = [
    (128, 64, 16, 8, 3), (64, 64, 16, 4, 3), (64, 128, 16, 8, 3), (64, 64, 32, 8, 3),
    (32, 64, 32, 4, 3), (32, 32, 32, 4, 3), (16, 64, 32, 4, 3), (16, 32, 64, 4, 3),
]  # fmt: skip
_FMA32_RDNA: list[Tile] = [
    (64, 64, 16, 8, 2), (128, 64, 16, 8, 2), (64, 32, 16, 4, 2), (32, 64, 16, 4, 2),
    (32, 32, 32, 4, 2), (16, 32, 32, 4, 2),
]  # fmt: skip
_FMA64: list[Tile] = [
    (64, 64, 16, 8, 2), (64, 32, 16, 4, 2), (32, 64, 16, 4, 2), (32, 32, 16, 4, 2),
    (16, 32, 32, 4, 2), (16, 16, 32, 2, 2),
]  # fmt: skip
_INTERPRETED: list[Tile] = [(32, 32, 32, 4, 2), (64, 64, 64, 4, 2)]


@dataclass(frozen=True, slots=True)
class Shape:
    """Extents of a (batched) matrix multiplication."""

    batch: int
    m: int
    n: int
    k: int


def tiles_for(dtype: str, precision: str, target: Target) -> list[Tile]:
    """Tiles of a target for a dtype; "ieee" float32 has no NVIDIA or RDNA matrix unit."""
    if target.backend == "interpreter":
        return _INTERPRETED
    if dtype == "float64":
        return _FMA64
    if dtype == "float32" and (precision == "ieee" or target.rdna) and not target.cdna:
        return _FMA32_RDNA if target.rdna else _FMA32
    tiles = _CDNA if target.cdna else _RDNA if target.rdna else _AMPERE
    if target.arch == "gfx950":
        tiles = _CDNA4
    if target.capability in (90, 100, 103, 110):
        tiles = _HOPPER
    if dtype == "float32":  # twice the bytes a tile: half the depth
        tiles = [(m, n, max(16, k // 2), w, s) for m, n, k, w, s in tiles if m * n <= 128 * 128]
    elif dtype in ("int8", "uint8", "float8_e4m3fn"):
        tiles = [
            (m, n, max(32, k * 2 if m * n < 128 * 256 else k), w, s) for m, n, k, w, s in tiles
        ]
    return tiles


def shared_bytes(tile: Tile, itemsize: int, target: Target) -> int:
    """Shared memory of the pipelined operand tiles [B]; AMD keeps one stage in registers."""
    block_m, block_n, block_k, _, stages = tile
    buffers = max(1, stages - 1) if target.backend == "hip" else stages
    return (block_m + block_n) * block_k * itemsize * buffers


RESIDUAL_ROOM, NARROW_ROOM = 64, 32
"""Accumulators a lane can hold (of 255 registers) beside an epilogue that loads a tile of the
result's size, and beside operands that are loaded element by element or a second accumulator."""


def candidates(
    shape: Shape,
    dtype: str,
    itemsize: int,
    precision: str,
    target: Target,
    *,
    room: int = 0,
    narrow: bool = False,
    most: int = 12,
) -> list[Config]:
    """Tile configs that fit the target, ordered by an estimate of their time.

    `room`: most accumulators of a lane, 0 for no limit. `narrow`: operands are not loaded 16 bytes
    at a time, so that copies cannot be asynchronous and a tile must be shallow.
    """
    found: list[Any] = []
    if narrow:
        most_room = NARROW_ROOM // 2 if target.rdna and itemsize == 4 else NARROW_ROOM
        room = min(room or most_room, most_room)
    for tile in tiles_for(dtype, precision, target):
        block_m, block_n, block_k, num_warps, stages = tile
        if narrow:
            tile = (block_m, block_n, min(block_k, 32), num_warps, min(stages, 2))
        if shared_bytes(tile, itemsize, target) > target.shared:
            continue
        most_n, most_m = (max(16, next_power_of_2(extent)) for extent in (shape.n, shape.m))
        if block_m > most_m or block_n > most_n:
            continue
        if room and block_m * block_n > room * num_warps * target.warp:
            continue
        for split_k in split_choices(shape, tile, target):
            found.append((estimate(shape, tile, split_k, target), tile, split_k))
    if not found:
        small = min(tiles_for(dtype, precision, target), key=lambda t: t[0] * t[1])
        found = [(0.0, small, 1)]
    found.sort(key=lambda item: item[0])
    configs: list[Config] = [_config(tile, split_k) for _, tile, split_k in found]
    return [c for i, c in enumerate(configs) if c not in configs[:i]][:most]


def _config(tile: Tile, split_k: int) -> dict[str, int | str | bool]:
    block_m, block_n, block_k, num_warps, num_stages = tile
    return {
        "variant": "tile", "block_m": block_m, "block_n": block_n, "block_k": block_k,
        "group_m": 8, "split_k": split_k, "num_warps": num_warps, "num_stages": num_stages,
    }  # fmt: skip


def split_choices(shape: Shape, tile: Tile, target: Target) -> list[int]:
    """Parts of K worth trying: only while the tiles alone leave units idle."""
    units = target.units or 100
    tiles = shape.batch * cdiv(shape.m, tile[0]) * cdiv(shape.n, tile[1])
    choices = [1]
    for split_k in (2, 4, 8, 16):
        deep = shape.k >= 4 * split_k * tile[2]
        if deep and tiles * split_k <= 2 * units and target.backend != "interpreter":
            choices.append(split_k)
    if target.backend == "interpreter" and shape.k > 2 * tile[2]:
        choices.append(2)
    return choices


def estimate(shape: Shape, tile: Tile, split_k: int, target: Target) -> float:
    """Relative time: full waves of tiles, each paying for its operands' traffic and its FLOPs.

    A tile costs block_m*block_n per k for arithmetic and about 32 (block_m + block_n) for loads;
    a split adds the write and read of its partial sums. Good enough to order, not to predict.
    """
    block_m, block_n, _, _, _ = tile
    units = target.units or 100
    tiles = shape.batch * cdiv(shape.m, block_m) * cdiv(shape.n, block_n) * split_k
    waves = cdiv(tiles, units)
    per_k = block_m * block_n + 32 * (block_m + block_n)
    extra = 200 * block_m * block_n if split_k > 1 else 0
    return float(waves * (per_k * shape.k / split_k + extra + 4000))


def vector_configs(shape: Shape, itemsize: int, target: Target) -> list[Config]:
    """Configs of the vector-times-matrix kernel: enough parts of K to occupy every unit."""
    units = target.units or 100
    found: list[Any] = []
    for block_n, block_k in ((64, 64), (128, 32), (32, 128), (256, 16)):
        if block_n > max(32, next_power_of_2(shape.n)):
            continue
        tiles = shape.batch * cdiv(shape.n, block_n)
        wanted = max(1, 2 * units // max(tiles, 1))
        split_k = min(next_power_of_2(wanted), next_power_of_2(cdiv(shape.k, block_k)), 64)
        if target.backend == "interpreter":
            split_k = min(split_k, 2)
        # 4096 accumulators over 4 waves of 64 (32) lanes: 16 (32) registers each
        found.append({"variant": "vector", "block_n": block_n, "block_k": block_k,
                      "split_k": split_k, "num_warps": 4, "num_stages": 3})  # fmt: skip
    return found
