"""The facts for the page's table: columns of small numbers and indices into lists of texts.

A hundred thousand rows must travel in one page: every text is there once, what rows of one problem
and device share is there once, and large data is packed with gzip (the page unpacks it itself).
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Callable, Hashable
from typing import Any

from portable.report.attribution import STEPS
from portable.report.model import Report
from portable.report.rows import Row, identity

PACK_BYTES = 200_000
"""Data larger than this is packed."""


class _Texts:
    """Distinct values in the order seen."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._index: dict[Hashable, int] = {}

    def index(self, key: Hashable, value: Callable[[], Any]) -> int:
        """Place of a key's value, which is made at the first sight of the key."""
        if key not in self._index:
            self._index[key] = len(self.values)
            self.values.append(value())
        return self._index[key]

    def __call__(self, key: Hashable, value: Any = None) -> int:
        return self.index(key, lambda: key if value is None else value)


def table_data(report: Report) -> dict[str, Any]:
    """Lists of texts, groups (problem, device, cache) and one list per column."""
    lists = {n: _Texts() for n in (
        "ops", "problems", "places", "candidates", "configs", "statuses", "reasons", "flags",
        "versions", "created", "hows",
    )}  # fmt: skip
    groups = _Texts()
    rows = sorted(report.rows, key=_order)
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for row in rows:
        for name, value in _cells(row, report, lists, groups).items():
            columns[name].append(value)
    return {
        "steps": list(STEPS),
        "groups": groups.values,
        "columns": columns,
        **{name: texts.values for name, texts in lists.items()},
    }


_COLUMNS = (
    "group", "candidate", "config", "status", "reason", "time", "spread", "samples", "roof",
    "score", "flags", "steps", "hows", "versions", "created", "headline", "chosen", "method",
)  # fmt: skip


def _order(row: Row) -> tuple[Any, ...]:
    return (row.problem.op, row.problem.dtype, row.label, row.place.label, row.time or math.inf)


def _cells(row: Row, report: Report, lists: dict[str, _Texts], groups: _Texts) -> dict[str, Any]:
    record = row.record
    key = (row.number, id(row.place), record.cache)
    return {
        "group": groups.index(key, lambda: _group(row, report, lists)),
        "candidate": lists["candidates"]((row.candidate, row.path), [row.candidate, row.path]),
        "config": lists["configs"](row.config),
        "status": lists["statuses"](row.status),
        "reason": lists["reasons"](row.reason),
        "time": digits(row.time, 4),
        "spread": digits(row.spread, 2),
        "samples": len(record.samples),
        "roof": digits(row.roof.time, 4) if row.roof else None,
        "score": digits(row.score.value, 3),
        "flags": lists["flags"]("; ".join(row.flags)),
        "steps": _steps(row),
        "hows": lists["hows"](", ".join(step.how for step in row.steps)),
        "versions": lists["versions"](
            " ".join(f"{k} {v}" for k, v in sorted(record.versions.items()))
        ),
        "created": lists["created"](record.created),
        "headline": int(row.headline),
        "chosen": int(row.chosen),
        "method": f"{record.method}",
    }


def _group(row: Row, report: Report, lists: dict[str, _Texts]) -> list[Any]:
    problem, sol, cost = row.problem, row.sol, row.cost
    same = identity(problem)
    notes = [w.notes[same] for w in report.workloads if same in w.notes]
    calls = [digits(w.of(problem), 6) for w in report.workloads] if report.weighted else []
    return [
        lists["ops"]((problem.op, problem.dtype), [problem.op, problem.dtype]),
        lists["problems"](row.number, [row.label, "; ".join(dict.fromkeys(notes))]),
        lists["places"](row.place.label),
        row.record.cache,
        digits(sol.time, 4) if sol else None,
        sol.bound_by if sol else "",
        int(sol.estimated) if sol else 0,
        digits(sol.ridge, 3) if sol and math.isfinite(sol.ridge) else None,
        digits(cost.flops, 6) if cost else None,
        cost.bytes if cost else None,
        digits(row.best, 4),
        row.best_name,
        digits(row.baseline, 4),
        row.baseline_name,
        digits(sol.compute_time, 4) if sol else None,
        calls,
    ]


def _steps(row: Row) -> list[int]:
    """Steps in thousandths of the time; [] where there is no attribution."""
    if not row.steps or not row.time:
        return []
    return [round(step.time / row.time * 1000) for step in row.steps]


def digits(value: float | None, count: int) -> float | None:
    """A number rounded to significant digits; None for what is no finite number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{count}g}")


def script_text(data: Any) -> tuple[str, str]:
    """(kind, text) for a script element: "json", or "gzip" in base64 when it is large."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    if len(text) <= PACK_BYTES:
        return "json", text.replace("<", "\\u003c").replace("\u2028", "\\u2028")
    packed = gzip.compress(text.encode(), compresslevel=6, mtime=0)
    return "gzip", base64.b64encode(packed).decode()
