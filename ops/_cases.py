"""Short spellings for the cases of ops, and the value regimes and layouts all of them share."""

from __future__ import annotations

from typing import Any

from portable.op import Case, Operand

LAYOUTS = ("transposed", "sliced", "reversed", "broadcast")
"""Layouts besides contiguous, see `portable.cases.arrays`."""

FILLS = (
    "normal*1e4", "normal*1e-4", "outlier", "equal", "zeros", "nan", "inf", "offset",
)  # fmt: skip
"""Hostile values, see `portable.cases.fill`."""


def x(*shape: int, fill: str = "normal", layout: str = "contiguous", dtype: str = "") -> Operand:
    """An operand: x(3, 4, fill="zeros")."""
    return Operand(shape, dtype, fill, layout)


def case(
    name: str,
    *,
    level: str = "core",
    dtypes: tuple[str, ...] = (),
    params: dict[str, Any] | None = None,
    **operands: Operand | None,
) -> Case:
    """A case: case("name", a=x(3, 4), b=x(4, 5)); operands that are None are absent."""
    present = {name: operand for name, operand in operands.items() if operand is not None}
    return Case(name, present, params or {}, level, dtypes)


ROWS: tuple[tuple[tuple[int, ...], str], ...] = (
    ((4, 64), "core"), ((3, 5, 128), "core"), ((1, 1), "core"), ((7, 1), "core"),
    ((1, 131), "core"), ((131, 3), "core"), ((2, 211), "full"),
    ((5, 293), "full"), ((3, 373), "full"),
    ((2, 1024), "core"), ((1, 5000), "full"), ((9,), "core"), ((0, 8), "core"), ((8, 0), "core"),
    ((0,), "core"), ((2, 3, 0, 4), "full"), ((2, 2, 3, 33), "full"), ((257, 16), "full"),
    ((6, 4096), "full"),
)  # fmt: skip
"""Shapes for ops that work along rows, with their level."""


def row_cases(
    *,
    axes: bool = False,
    extra: tuple[str, ...] = ("-inf some", "-inf rows"),
    params: dict[str, Any] | None = None,
) -> list[Case]:
    """Cases of an op with one operand x that works along an axis (the last one by default)."""
    base = params or {}
    found = [case("x".join(map(str, s)), x=x(*s), params=base, level=level) for s, level in ROWS]
    if axes:
        for axis in (0, 1, -2, 2):
            name = f"axis {axis}"
            found.append(case(name, x=x(5, 37, 6), params=base | {"axis": axis}))
        found.append(case("axis 0 long", x=x(373, 3), params=base | {"axis": 0}, level="full"))
    for layout in LAYOUTS:
        found.append(case(layout, x=x(13, 37, layout=layout), params=base))
        found.append(case(f"{layout} 3-d", x=x(3, 4, 65, layout=layout), params=base, level="full"))
    for fill in (*FILLS, *extra):
        found.append(case(f"fill {fill}", x=x(6, 129, fill=fill), params=base, level="hostile"))
        found.append(
            case(f"fill {fill} long", x=x(3, 2000, fill=fill), params=base, level="hostile")
        )
    return found


def elementwise_cases(
    names: tuple[str, ...], params: dict[str, Any], prefix: str = ""
) -> list[Case]:
    """Cases of an op that works element by element on operands of one shape."""

    def make(
        name: str, shape: tuple[int, ...], level: str, fill: str = "normal", layout: str = ""
    ) -> Case:
        first = {names[0]: x(*shape, fill=fill, layout=layout or "contiguous")}
        rest = {n: x(*shape, layout=layout or "contiguous") for n in names[1:]}
        operands: dict[str, Any] = first | rest
        return case(prefix + name, params=params, level=level, **operands)

    shapes: tuple[tuple[tuple[int, ...], str], ...] = (
        ((), "core"), ((1,), "core"), ((0,), "core"), ((131,), "core"), ((64, 64), "core"),
        ((3, 5, 7, 11), "core"), ((211, 293), "full"), ((4099,), "full"), ((2, 0, 3), "core"),
    )  # fmt: skip
    found = [make("x".join(map(str, s)) or "0-d", s, level) for s, level in shapes]
    for layout in LAYOUTS:
        found.append(make(layout, (19, 33), "core", layout=layout))
        found.append(make(f"{layout} 3-d", (3, 5, 18), "full", layout=layout))
    for layout in LAYOUTS if len(names) > 1 else ():
        mixed: dict[str, Any] = dict.fromkeys(names, x(19, 32))
        mixed[names[-1]] = x(19, 32, layout=layout)
        found.append(case(f"{prefix}{names[-1]} {layout}", params=params, **mixed))
    found += [make(f"fill {fill}", (7, 129), "hostile", fill) for fill in (*FILLS, "normal*10")]
    return found
