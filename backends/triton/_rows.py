"""Tile sizes of the row-wise kernels."""

from __future__ import annotations

from portable.backend import Config
from portable.backends.triton._layout import Rows, next_power_of_2
from portable.backends.triton._target import Target

TILE = 4096
"""Elements of a tile when the row is looped over or several rows share a program."""
LONGEST_WHOLE = {2: 32_768, 4: 16_384, 8: 8192, 1: 32_768}
"""Longest row kept in registers, by item size: 16 warps of 32 lanes hold 64 elements of a half
type (32 of float32) each; beyond that registers spill on some target."""
ELEMENTS_PER_LANE = 16


def warps_for(elements: int, target: Target, most: int = 16) -> int:
    """Warps that give a lane about ELEMENTS_PER_LANE elements; at most 1024 lanes."""
    wanted = next_power_of_2(max(1, elements // (ELEMENTS_PER_LANE * target.warp)))
    return min(wanted, most, 1024 // target.warp)


def row_configs(rows: Rows, itemsize: int, target: Target) -> list[Config]:
    """(block_r, block_n, num_warps): whole rows where they fit, loops where not.

    Where neighbouring rows are adjacent in memory (the axis is not the last) a tile is wide in
    rows, so that loads stay coalesced.
    """
    whole = next_power_of_2(rows.n)
    if rows.across:
        shapes = [(r, min(whole, n)) for r, n in ((64, 64), (128, 32), (32, 64), (128, 16))]
    elif whole <= LONGEST_WHOLE[itemsize]:
        pack = max(1, min(TILE // 4 // whole, next_power_of_2(rows.rows)))
        shapes = [(pack, whole)]
        if pack > 1:
            shapes.append((1, whole))
        if whole > TILE:
            shapes.append((1, TILE))
    else:
        shapes = [(1, TILE), (1, 2 * TILE), (1, TILE // 2)]
    found: list[Config] = []
    for block_r, block_n in shapes:
        best = warps_for(block_r * block_n, target)
        for num_warps in (best, best * 2, best // 2):
            config = {"block_r": block_r, "block_n": block_n, "num_warps": num_warps}
            if 1 <= num_warps <= 1024 // target.warp and config not in found:
                found.append(config)
    return found
