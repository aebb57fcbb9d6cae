"""Cases of conv2d: kernels, strides, padding, dilation, groups, tails, hostile values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.op import Case
from portable.ops._cases import FILLS, LAYOUTS, case, x

# N C H W, O, kernel, params
_SHAPES: tuple[tuple[tuple[int, ...], int, tuple[int, int], dict[str, Any], str], ...] = (
    ((1, 3, 8, 8), 4, (3, 3), {}, "core"),
    ((2, 8, 14, 14), 16, (3, 3), {"padding": 1}, "core"),
    ((2, 5, 9, 11), 7, (3, 3), {"padding": 1}, "core"),
    ((1, 4, 7, 7), 4, (3, 3), {"padding": 2}, "core"),
    ((1, 1, 3, 3), 1, (3, 3), {}, "core"),
    ((1, 1, 1, 1), 1, (1, 1), {}, "core"),
    ((2, 16, 6, 5), 8, (1, 1), {}, "core"),
    ((1, 3, 15, 15), 8, (7, 7), {"stride": 2, "padding": 3}, "core"),
    ((1, 6, 12, 10), 4, (3, 3), {"stride": 2, "padding": 1}, "core"),
    ((1, 6, 12, 10), 4, (3, 3), {"dilation": 2, "padding": 2}, "core"),
    ((1, 6, 12, 10), 4, (3, 3), {"dilation": (2, 1), "stride": (1, 3)}, "core"),
    ((2, 4, 9, 7), 6, (5, 2), {"padding": (2, 0)}, "core"),
    ((2, 6, 9, 7), 4, (3, 3), {"groups": 2, "padding": 1}, "core"),
    ((1, 8, 10, 10), 8, (3, 3), {"groups": 8, "padding": 1}, "core"),
    ((1, 4, 6, 6), 8, (2, 2), {"groups": 4, "stride": 2}, "core"),
    ((1, 8, 11, 11), 8, (5, 5), {"groups": 8, "stride": 2, "padding": 2}, "full"),
    ((1, 64, 14, 14), 32, (3, 3), {"padding": 1}, "full"),
    ((1, 131, 5, 5), 37, (3, 3), {"padding": 1}, "full"),
    ((1, 2, 1, 293), 3, (1, 7), {"padding": (0, 3)}, "full"),
    ((1, 2, 211, 1), 3, (7, 1), {"stride": (3, 1)}, "full"),
    ((0, 3, 8, 8), 4, (3, 3), {}, "core"),
    ((1, 0, 8, 8), 4, (3, 3), {}, "full"),
    ((1, 3, 8, 8), 0, (3, 3), {}, "full"),
    ((1, 3, 0, 4), 2, (1, 1), {"padding": 1}, "full"),
    ((1, 3, 2, 2), 2, (1, 1), {"padding": 2, "stride": 3}, "full"),
)


def cases() -> Sequence[Case]:
    """Every shape with and without bias; layouts; exact integers; hostile values."""
    found = []
    for shape, filters, kernel, params, level in _SHAPES:
        for bias in (False, True):
            name = f"{shape} {filters} {kernel} {params}{' bias' * bias}"
            found.append(_case(name, shape, filters, kernel, params, level, bias))
    for layout in LAYOUTS:
        found.append(_laid_out(f"x {layout}", "core", layout=layout))
        found.append(_laid_out(f"w {layout}", "full", weight_layout=layout))
    for params in ({"padding": 1}, {"stride": 2}, {"groups": 2}):
        name = f"exact {params}"
        found.append(_case(name, (2, 4, 9, 10), 6, (3, 3), params, fill="integers"))
    for fill in FILLS:
        # Where NaN and infinities go must not depend on Winograd's tiles.
        direct = {"stride": 2} if fill in ("nan", "inf") else {"padding": 1}
        found.append(_case(f"fill {fill}", (1, 8, 9, 9), 5, (3, 3), direct, "hostile", fill=fill))
        found.append(_case(f"1x1 fill {fill}", (1, 8, 9, 9), 5, (1, 1), {}, "hostile", fill=fill))
    return found


def _laid_out(name: str, level: str, **layouts: str) -> Case:
    return _case(
        name,
        (2, 4, 9, 10),
        6,
        (3, 3),
        {"padding": 1},
        level,
        layout=layouts.get("layout", "contiguous"),
        weight_layout=layouts.get("weight_layout", "contiguous"),
    )


def _case(
    name: str,
    shape: tuple[int, ...],
    filters: int,
    kernel: tuple[int, int],
    params: dict[str, Any],
    level: str = "core",
    bias: bool = False,
    fill: str = "normal",
    layout: str = "contiguous",
    weight_layout: str = "contiguous",
) -> Case:
    weight_fill = "integers" if fill == "integers" else "normal"
    channels = shape[1] // params.get("groups", 1)
    return case(
        name,
        x=x(*shape, fill=fill, layout=layout),
        w=x(filters, channels, *kernel, fill=weight_fill, layout=weight_layout),
        bias=x(filters) if bias else None,
        params=params,
        level=level,
    )
