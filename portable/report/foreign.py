"""Tables from JSON that other commands write: cross-compilation results, or any list of objects."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Table = tuple[str, list[str], list[list[str]]]
"""(title, head, lines)."""

MAX_CELL = 200
"""Characters of one cell; sources and logs stay in the JSON."""


def tables_of(data: Any) -> list[Table]:
    """Tables of JSON data: of `portable crosscompile`, else of every list of objects in it."""
    if not data:
        return []
    if isinstance(data, Mapping) and _is_crosscompile(data.get("rows")):
        return _crosscompile(data)
    named: Mapping[str, Any] = data if isinstance(data, Mapping) else {"": data}
    tables = []
    for name, rows in named.items():
        if not isinstance(rows, list) or not all(isinstance(r, Mapping) for r in rows):
            continue
        head = list(dict.fromkeys(str(k) for row in rows for k in row))
        tables.append((str(name), head, [[text(row.get(k)) for k in head] for row in rows]))
    return tables


def _is_crosscompile(rows: Any) -> bool:
    return isinstance(rows, list) and all(
        isinstance(r, Mapping)
        and all(isinstance(r.get(part), Mapping) for part in ("unit", "target", "built"))
        for r in rows
    )


def _crosscompile(data: Mapping[str, Any]) -> list[Table]:
    rows: list[Mapping[str, Any]] = data["rows"]
    tables = [_targets(rows), _overview(rows), _found(rows), _resources(rows)]
    for title, name in (("Not built: the time was up", "unbuilt"), ("Not tried", "skipped")):
        lines = data.get(name)
        if isinstance(lines, list):
            tables.append((title, ["kernel" if name == "unbuilt" else "reason"],
                           [[text(line)] for line in lines]))  # fmt: skip
    return [table for table in tables if table[2]]


def sentences_of(data: Any) -> list[str]:
    """What the tables of `portable crosscompile` come to: counts, compilers, assumptions."""
    if not isinstance(data, Mapping) or not _is_crosscompile(data.get("rows")):
        return []
    rows: list[Mapping[str, Any]] = data["rows"]
    if not rows:
        return [
            'No kernel was built here: "Not tried" says what was missing and the command that '
            "installs it. `portable crosscompile --json F` and then `portable report "
            "--crosscompile F` fill this section."
        ]
    good = sum(row["built"].get("status") == "ok" for row in rows)
    targets = {text(row["target"].get("name")) for row in rows}
    found = [f"{len(rows)} builds for {len(targets)} targets, {good} without error."]
    compilers = data.get("compilers")
    if isinstance(compilers, Mapping):
        names = [text(v) for v in compilers.values() if isinstance(v, Mapping)]
        found.append(f"Compilers: {', '.join(names)}.")
    if isinstance(data.get("assumptions"), str):
        found.append(data["assumptions"])
    return found


_COUNTED = (
    "spill", "stack", "cannot-launch", "no-matrix-unit", "slow-path", "older-instruction",
    "low-occupancy",
)  # fmt: skip
"""Kinds of findings with a column of their own, by target."""


def _targets(rows: Sequence[Mapping[str, Any]]) -> Table:
    """By target: builds, and how many of them have each kind of finding that costs much."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        key = (text(row["target"].get("name")), text(row["target"].get("hardware")))
        found.setdefault(key, []).append(row)
    kinds = [k for k in _COUNTED if any(k in _kinds(row) for row in rows)]
    lines = [
        [
            *key, str(len(here)), str(sum(r["built"].get("status") == "ok" for r in here)),
            *(str(sum(kind in _kinds(r) for r in here)) for kind in kinds),
            _shares(here),
        ]
        for key, here in found.items()
    ]  # fmt: skip
    head = [
        "target",
        "judged as",
        "builds",
        "without error",
        *kinds,
        "of the roof at most (median)",
    ]
    return ("Targets", head, lines)


def _kinds(row: Mapping[str, Any]) -> set[str]:
    return {text(finding.get("kind")) for finding in _mappings(row.get("findings"))}


def _shares(rows: Sequence[Mapping[str, Any]]) -> str:
    known = [s for r in rows if isinstance(s := r.get("roof_share"), int | float)]
    return _percent(statistics.median(known)) if known else "–"


def _overview(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Builds without error of all builds, by backend and op and by target."""
    targets = list(dict.fromkeys(text(r["target"].get("name")) for r in rows))
    counts: dict[tuple[str, str], dict[str, list[bool]]] = {}
    for row in rows:
        key = (text(row["unit"].get("backend")), text(row["unit"].get("op")))
        good = row["built"].get("status") == "ok"
        counts.setdefault(key, {}).setdefault(text(row["target"].get("name")), []).append(good)
    lines = [
        [backend, op, *(_ratio(found.get(target, [])) for target in targets)]
        for (backend, op), found in counts.items()
    ]
    return ("Builds without error, of all builds", ["backend", "op", *targets], lines)


def _ratio(good: Sequence[bool]) -> str:
    return f"{sum(good)}/{len(good)}" if good else "–"


def _found(rows: Sequence[Mapping[str, Any]]) -> Table:
    """What is wrong, the costliest first."""
    lines: list[tuple[float, list[str]]] = []
    for row in rows:
        where = [*_where(row)]
        if row["built"].get("status") != "ok":
            lines.append((math.inf, [*where, text(row["built"].get("message")) or "failed"]))
        for finding in _mappings(row.get("findings")):
            cost = finding.get("cost")
            weight = float(cost) if isinstance(cost, int | float) else 0.0
            lines.append((weight, [*where, text(finding.get("text"))]))
    ordered = [line for _, line in sorted(lines, key=lambda pair: -pair[0])]
    return ("Findings, the costliest first", [*_WHERE, "finding"], ordered)


_WHERE = ("backend", "target", "op", "kernel")
_BUILT = (
    "registers", "spill_bytes", "stack", "shared", "threads", "matrix", "binary_size",
)  # fmt: skip


def _where(row: Mapping[str, Any]) -> list[str]:
    unit = row["unit"]
    what = f"{text(unit.get('op'))} {text(unit.get('label'))}".strip()
    return [
        text(unit.get("backend")), text(row["target"].get("name")), what, text(unit.get("kernel")),
    ]  # fmt: skip


def _resources(rows: Sequence[Mapping[str, Any]]) -> Table:
    head = [
        *_WHERE, "config", "status", *(n.replace("_", " ") for n in _BUILT), "occupancy",
        "limited by", "of the roof at most (estimate)",
    ]  # fmt: skip
    lines = [
        [
            *_where(row),
            text(row["unit"].get("config")),
            text(row["built"].get("status")),
            *(text(row["built"].get(name)) for name in _BUILT),
            _percent(row.get("occupancy")),
            text(row.get("limited_by")).replace("_", " "),
            _percent(row.get("roof_share")),
        ]
        for row in rows
    ]
    return ("Resources", head, lines)


def _percent(value: Any) -> str:
    known = isinstance(value, int | float) and math.isfinite(value)
    return f"{value:.0%}" if known else "–"


def _mappings(value: Any) -> Iterable[Mapping[str, Any]]:
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """A JSON value as the text of a cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {text(v)}" for k, v in value.items())[:MAX_CELL]
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value))[:MAX_CELL]
    shown = str(value)
    return shown if len(shown) <= MAX_CELL else shown[: MAX_CELL - 2] + " …"
