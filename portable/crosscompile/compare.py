"""Porting diff: what two targets make of the same kernels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from portable.crosscompile.facts import Row

HALVED = 0.5


@dataclass(frozen=True, slots=True)
class Difference:
    """One kernel on two targets.

    Attributes:
        kind: "fails", "no-matrix-unit", "spill", "occupancy"; what the second target loses.
        text: plain words.
    """

    backend: str
    op: str
    label: str
    kernel: str
    kind: str
    text: str


def compare(rows: Iterable[Row], first: str, second: str) -> list[Difference]:
    """What `second` loses against `first`, per kernel launched by the same problem.

    Configs are each target's own: the question is what the port gets, not what the same tile does.
    """
    sides: dict[str, dict[tuple[str, str, str, int], Row]] = {first: {}, second: {}}
    for row in rows:
        if row.target.name in sides:
            unit = row.unit
            key = (unit.backend, unit.op, unit.label, unit.index)
            sides[row.target.name].setdefault(key, row)
    found = []
    for key, a in sides[first].items():
        b = sides[second].get(key)
        for kind, text in _losses(a, b, second):
            unit = a.unit
            found.append(Difference(unit.backend, unit.op, unit.label, unit.kernel, kind, text))
    return found


def _losses(a: Row, b: Row | None, second: str) -> list[tuple[str, str]]:
    if b is None:
        return [("fails", f"has no kernel on {second}")] if a.built.ok else []
    if a.built.ok and not b.built.ok:
        return [("fails", f"builds on {a.target.name}, not on {second}: {b.built.message}")]
    if not (a.built.ok and b.built.ok):
        return []
    found = []
    if a.built.matrix and not b.built.matrix:
        names = ", ".join(sorted(a.built.matrix))
        found.append(("no-matrix-unit", f"{names} on {a.target.name}, no matrix unit on {second}"))
    if b.built.spilled and not a.built.spilled:
        found.append(("spill", f"spills on {second} ({b.built.registers} registers)"))
    if a.occupancy and b.occupancy and b.occupancy <= HALVED * a.occupancy:
        by = " and ".join(b.limited_by)
        text = f"occupancy {a.occupancy:.0%} -> {b.occupancy:.0%} (limited by {by})"
        found.append(("occupancy", text))
    return found
