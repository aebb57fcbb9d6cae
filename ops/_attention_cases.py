"""Cases of attention: self-attention, decode, grouped heads, masks, tails, hostile values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.op import Case, Operand
from portable.ops._cases import LAYOUTS, case, x

# b, h, hk, s, t, d, dv
_SHAPES = (
    (1, 2, 2, 16, 16, 32, 32, "core"), (2, 4, 2, 32, 32, 64, 64, "core"),
    (1, 8, 1, 1, 131, 64, 64, "core"), (1, 3, 3, 37, 37, 16, 24, "core"),
    (2, 4, 4, 1, 64, 32, 32, "core"), (1, 6, 2, 5, 29, 40, 40, "core"),
    (1, 1, 1, 1, 1, 1, 1, "core"), (1, 2, 1, 7, 1, 8, 8, "core"),
    (1, 2, 2, 131, 131, 64, 64, "full"),
    (1, 1, 1, 211, 293, 80, 80, "full"), (1, 4, 2, 65, 65, 128, 128, "full"),
    (2, 2, 2, 9, 33, 72, 17, "full"), (1, 8, 2, 1, 1024, 128, 128, "full"),
    (0, 2, 2, 4, 4, 8, 8, "core"), (1, 2, 2, 0, 4, 8, 8, "core"), (1, 2, 2, 3, 0, 8, 8, "core"),
    (1, 2, 2, 4, 4, 8, 0, "full"), (1, 2, 2, 3, 5, 0, 4, "full"),
)  # fmt: skip
_MASKS = ((6, 9), (1, 1, 6, 9), (2, 1, 6, 9), (2, 4, 6, 9), (1, 9), (2, 1, 1, 9), (4, 1, 9))


def cases() -> Sequence[Case]:
    """Every shape plain and causal; masks of every broadcast; layouts; hostile values."""
    found: list[Case] = []
    for b, h, hk, s, t, d, dv, level in _SHAPES:
        for causal in (False, True):
            name = f"{b} {h}/{hk} {s}x{t} {d} {dv}{' causal' * causal}"
            found.append(_case(name, (b, h, hk, s, t, d, dv), level, params={"causal": causal}))
    found.append(_case("causal, more queries", (1, 2, 2, 9, 5, 8, 8), params={"causal": True}))
    shape = (2, 4, 2, 6, 9, 16, 16)
    for mask in _MASKS:
        found.append(_case(f"bool {mask}", shape, mask=x(*mask, fill="mask", dtype="bool")))
        found.append(_case(f"added {mask}", shape, "full", mask=x(*mask)))
    for fill in ("-inf some", "-inf rows", "mask"):
        found.append(_case(f"added {fill}", shape, "hostile", mask=x(6, 9, fill=fill)))
    both = {"causal": True, "scale": 0.3}
    found.append(_case("bool and causal", shape, mask=x(6, 9, fill="mask", dtype="bool"),
                       params=both))  # fmt: skip
    found.append(_case("broadcast mask", shape, "full", mask=x(4, 6, 9, layout="broadcast")))
    for scale in (0.0, 1.0, -0.5, 2):
        found.append(_case(f"scale {scale}", shape, "full", params={"scale": scale}))
    for layout in LAYOUTS:
        for operand in ("q", "k", "v"):
            found.append(_case(f"{operand} {layout}", shape, "full", layout={operand: layout}))
        every = dict.fromkeys(("q", "k", "v"), layout)
        found.append(_case(f"all {layout}", shape, layout=every))
    return found + _hostile(shape)


def _hostile(shape: tuple[int, ...]) -> list[Case]:
    found = []
    for fill in ("normal*1e2", "normal*1e-4", "equal", "zeros", "nan", "inf", "outlier", "offset"):
        for operand in ("q", "v"):
            if (fill, operand) == ("inf", "q"):
                continue  # an infinite score is NaN or a one-hot row, by the order of operations
            name = f"{operand} {fill}"
            found.append(_case(name, shape, "hostile", fill={operand: fill}))
    found.append(
        _case(
            "v integers, equal scores",
            (1, 2, 2, 8, 16, 8, 8),
            "hostile",
            fill={"q": "zeros", "v": "integers"},
        )
    )
    return found


def _case(
    name: str,
    shape: tuple[int, ...],
    level: str = "core",
    mask: Operand | None = None,
    params: dict[str, Any] | None = None,
    fill: dict[str, str] | None = None,
    layout: dict[str, str] | None = None,
) -> Case:
    b, h, hk, s, t, d, dv = shape
    fills, layouts = fill or {}, layout or {}

    def operand(key: str, *extents: int) -> Operand:
        return x(*extents, fill=fills.get(key, "normal"), layout=layouts.get(key, "contiguous"))

    return case(
        name,
        q=operand("q", b, h, s, d),
        k=operand("k", b, hk, t, d),
        v=operand("v", b, hk, t, dv),
        mask=mask,
        params=params,
        level=level,
    )
