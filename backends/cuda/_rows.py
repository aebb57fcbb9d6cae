"""Kernels that work on rows: how many threads a row takes and what they keep in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from portable import dtypes
from portable.backend import Config
from portable.backends.cuda._plan import merged, strides
from portable.backends.cuda._targets import Target
from portable.op import TensorSpec

_KEPT = 32  # elements of a row that one thread may keep in registers
_GROUPS = (128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor as rows over its last axis.

    Attributes:
        count, length: rows, and elements of one.
        stride: elements from row to row.
        spec: how the kernel reads it; dense if its own layout does not fit.
    """

    count: int
    length: int
    stride: int
    spec: TensorSpec


def rows(spec: TensorSpec) -> Rows:
    """The rows of a tensor; it is to be packed when they are no single strided axis."""
    count, length = math.prod(spec.shape[:-1]), spec.shape[-1]
    steps = strides(spec)
    extents, (step,) = merged(spec.shape[:-1], [steps[:-1]])
    if len(extents) <= 1 and (steps[-1] == 1 or length == 1):
        return Rows(count, length, step[0] if step else length, spec)
    return Rows(count, length, length, spec.dense())


def configs(length: int, dtype: str, target: Target) -> Sequence[Config]:
    """Groups of threads for rows of a length: {"group", "rows", "items"}, the best guess first.

    "items" counts 16-byte accesses a thread keeps; the scalar kernel for unaligned rows derives
    its own from the group.
    """
    wide = 16 // dtypes.itemsize(dtype)
    packs = -(-length // wide)
    warp = target.warp
    found: list[dict[str, int | str | bool]] = []
    if packs <= warp * 4:
        found.append({"group": warp, "rows": 128 // warp})
    groups = [g for g in _GROUPS if packs * wide <= g * _KEPT] or [512]
    best = next((g for g in groups if packs <= 2 * g), groups[-1])
    ordered = sorted(groups, key=lambda g: g != best)
    found += [{"group": g, "rows": 1} for g in ordered if g < 2 * max(packs, 64)]
    return found or [{"group": 128, "rows": 1}]


def macros(length: int, dtype: str, config: Config, vec: int) -> dict[str, int | str]:
    """GROUP, ROWS, VEC and ITEMS for a config and the access width that the layout allows."""
    group = int(config["group"])
    needed = -(-length // (group * vec))
    items = 1 << max(needed - 1, 0).bit_length()
    return {
        "GROUP": group,
        "ROWS": int(config["rows"]),
        "VEC": vec,
        "ITEMS": items if items * vec <= _KEPT else 0,
    }
