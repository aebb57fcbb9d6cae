"""What the norms over the last axis share: shape rules and cases."""

from __future__ import annotations

from typing import Any

from portable.op import Case, TensorSpec
from portable.ops import _rules as rules
from portable.ops._cases import FILLS, LAYOUTS, ROWS, case, x


def check_shapes(op: str, specs: rules.Specs) -> TensorSpec:
    """x, at least 1-d; weight and bias (n,) when present."""
    left = specs["x"]
    rules.at_least(op, "x", left, 1, "a last axis to normalise")
    for name in ("weight", "bias"):
        if name in specs:
            meaning = "(n,): the last axis of x"
            rules.shape_is(op, name, specs[name], left.shape[-1:], meaning)
    return left


def norm_cases(extras: tuple[str, ...], residual: bool = False) -> list[Case]:
    """Cases with every subset of the optional operands, a few eps, layouts, hostile values."""
    found = []
    for shape, level in ROWS:
        name = "x".join(map(str, shape))
        found.append(_case(name, shape, extras, residual, level=level))
    for count in range(len(extras)):
        found.append(_case(f"with {extras[:count]}", (7, 48), extras[:count], residual))
    if len(extras) == 2:
        found.append(_case(f"with {extras[1:]}", (7, 48), extras[1:], residual))
    for eps in (0.0, 1e-3, 1.0):
        found.append(_case(f"eps {eps}", (5, 64), extras, residual, params={"eps": eps}))
    for layout in LAYOUTS:
        found.append(_case(layout, (13, 37), extras, residual, layout=layout))
        found.append(_case(f"{layout} 3-d", (3, 4, 65), (), residual, layout=layout, level="full"))
    if residual:
        found += [_mixed(layout, extras) for layout in LAYOUTS]
    for fill in FILLS:
        for n in (129, 2000):
            found.append(
                _case(f"fill {fill} {n}", (6, n), extras, residual, fill=fill, level="hostile")
            )
    return found


def _mixed(layout: str, extras: tuple[str, ...]) -> Case:
    """A contiguous x and a residual that is not."""
    operands: dict[str, Any] = {"x": x(9, 40), "residual": x(9, 40, layout=layout)}
    operands |= {extra: x(40) for extra in extras}
    return case(f"residual {layout}", **operands)


def _case(
    name: str,
    shape: tuple[int, ...],
    extras: tuple[str, ...],
    residual: bool,
    *,
    level: str = "core",
    fill: str = "normal",
    layout: str = "contiguous",
    params: dict[str, Any] | None = None,
) -> Case:
    operands: dict[str, Any] = {"x": x(*shape, fill=fill, layout=layout)}
    if residual:
        operands["residual"] = x(*shape, layout=layout)
    operands |= {extra: x(shape[-1]) for extra in extras}
    return case(name, level=level, params=params, **operands)
