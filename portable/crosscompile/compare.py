"""Porting diff: what two targets make of the same kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from portable.crosscompile.facts import Row, Skipped, Unit

HALVED = 0.5


@dataclass(frozen=True, slots=True)
class Difference:
    """One kernel on two targets.

    Attributes:
        kind: "fails", "no-matrix-unit", "slow-path", "spill", "occupancy"; what the second target
            loses.
        text: plain words.
    """

    backend: str
    op: str
    label: str
    kernel: str
    kind: str
    text: str


def compare(
    rows: Iterable[Row], first: str, second: str, skipped: Iterable[Skipped] = ()
) -> list[Difference]:
    """What `second` loses against `first`, per kernel launched by the same problem.

    Configs are each target's own: the question is what the port gets, not what the same tile does;
    a later launch that the second target does without is no loss. `skipped` of the report tells
    why a problem has no kernel.
    """
    sides: dict[str, dict[tuple[str, str, str, int], Row]] = {first: {}, second: {}}
    for row in rows:
        if row.target.name in sides:
            unit = row.unit
            key = (unit.backend, unit.op, unit.label, unit.index)
            sides[row.target.name].setdefault(key, row)
    reasons = {(s.backend, s.target, s.op, s.label): s.reason for s in skipped}
    found = []
    for key, a in sides[first].items():
        b, unit = sides[second].get(key), a.unit
        if b is not None:
            losses = _losses(a, b, second)
        elif a.built.ok and unit.index == 0:
            losses = [("fails", f"has no kernel on {second}{_why(unit, second, reasons)}")]
        else:
            losses = []
        for kind, text in losses:
            found.append(Difference(unit.backend, unit.op, unit.label, unit.kernel, kind, text))
    return found


def _why(unit: Unit, target: str, reasons: Mapping[tuple[str, str, str, str], str]) -> str:
    whole = reasons.get((unit.backend, target, "", ""), "")
    reason = reasons.get((unit.backend, target, unit.op, unit.label), whole)
    return f": {reason}" if reason else ""


def _losses(a: Row, b: Row, second: str) -> list[tuple[str, str]]:
    if a.built.ok and not b.built.ok:
        return [("fails", f"builds on {a.target.name}, not on {second}: {b.built.message}")]
    if not (a.built.ok and b.built.ok):
        return []
    found = []
    if a.built.matrix and not b.built.matrix:
        names = ", ".join(sorted(a.built.matrix))
        found.append(("no-matrix-unit", f"{names} on {a.target.name}, no matrix unit on {second}"))
    elif not _detours(a):
        found += [("slow-path", text) for text in _detours(b)]
    if b.built.spilled and not a.built.spilled:
        found.append(("spill", f"spills on {second} ({b.built.registers} registers)"))
    if a.occupancy and b.occupancy and b.occupancy <= HALVED * a.occupancy:
        by = " and ".join(b.limited_by).replace("_", " ")
        text = f"occupancy {a.occupancy:.0%} -> {b.occupancy:.0%} (limited by {by})"
        found.append(("occupancy", text))
    return found


def _detours(row: Row) -> list[str]:
    """Where a product runs on another dtype's path."""
    return [f.text for f in row.findings if f.kind in ("slow-path", "widened")]
