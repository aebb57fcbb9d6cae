"""A report as one HTML file: no server, no network, readable without a script.

Charts, matrices and rankings are drawn here; a small script adds the table of all facts (sorted,
filtered, paged), tips and the colour scheme. Nothing is loaded from anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portable import backend as protocols
from portable.errors import RecordError
from portable.op import Problem
from portable.report import bills, charts, foreign
from portable.report.attribution import MEANING, STEPS
from portable.report.model import Report
from portable.report.places import Place
from portable.report.ranking import Ranking, Total
from portable.report.rows import Row
from portable.report.summary import ratio, sentences
from portable.report.table import script_text, table_data
from portable.report.weights import Weights
from portable.stats import geometric_mean
from portable.text import rate_text, share, time_text

MAX_FIXES = 12
LEAST_SHARE = 0.005
"""Share of the time below which nothing is worth fixing."""


def write_html(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the report as one self-contained HTML file."""
    try:
        Path(path).write_text(render(report), encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error}") from None


def render(report: Report) -> str:
    """The page as text."""
    import jinja2

    loader = jinja2.PackageLoader("portable.report", "template")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {
        "time": lambda v: time_text(v) if v is not None else "–",
        "share": _share,
        "times": lambda v: ratio(v) if v is not None else "–",
        "rate": rate_text,
        "number": lambda v: f"{v:,.4g}" if v is not None else "–",
    }
    return environment.get_template("page.html").render(_context(report, loader, environment))


def _share(value: float | None) -> str:
    if value is None:
        return "–"
    return share(value) if value >= 0.0005 else "<0.1%" if value > 0 else "0"


def _context(report: Report, loader: Any, environment: Any) -> dict[str, Any]:
    ran = {row.candidate for row in report.rows if row.ok}
    names = sorted({row.candidate for row in report.rows}, key=lambda n: (n not in ran, n))
    slots = {name: index for index, name in enumerate(names)}
    kind, data = script_text(table_data(report))
    return {
        "report": report,
        "sentences": sentences(report),
        "css": loader.get_source(environment, "page.css")[0],
        "js": loader.get_source(environment, "page.js")[0],
        "data_kind": kind,
        "data": data,
        "slots": slots,
        "drawn": ran,
        "swatches": {name: charts.swatch(slot) for name, slot in slots.items()},
        "matrices": [matrix(report, place) for place in report.places],
        "rooflines": [
            (place, chart)
            for place in report.places
            if (chart := charts.roofline(place, report.rows, slots)) is not None
        ],
        "rankings": [_ranking(r) for r in report.rankings],
        "projected": [_projected(p, report) for p in report.projected],
        "bills": _bills(report),
        "unpriced": bills.unused(report),
        "cascades": [charts.cascade(study) for study in report.studies],
        "failures": failures(report),
        "environment": [_environment(place, report) for place in report.places],
        "steps": [(index, name, MEANING[name]) for index, name in enumerate(STEPS)],
        "paths": _paths(report),
        "backend_gaps": _backend_gaps(report),
        "crosscompile": foreign.tables_of(report.crosscompile),
        "crosscompiled": foreign.sentences_of(report.crosscompile),
        "max_fixes": MAX_FIXES,
    }


# --- matrix ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cell:
    """One candidate on one op and dtype of a device.

    Attributes:
        gap: geometric mean of time over best; None when nothing ran.
        fraction: geometric mean of the SOL fraction.
        ran, of: problems it ran correctly, and problems there are.
        level: 0 (best) to 4, or 5 for nothing: the colour.
        why: why some did not run.
    """

    gap: float | None
    fraction: float | None
    ran: int
    of: int
    level: int
    why: str


Line = tuple[str, tuple[Cell, ...]]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Candidates against ops of one device, in groups by route ("" where there is only one)."""

    place: Place
    columns: tuple[tuple[str, str], ...]
    groups: tuple[tuple[str, tuple[Line, ...]], ...]


def matrix(report: Report, place: Place) -> Matrix:
    """Geometric means by candidate, op and dtype."""
    rows = [r for r in report.rows if r.place is place and r.headline]
    columns = tuple(sorted({(r.problem.op, r.problem.dtype) for r in rows}))
    problems: dict[tuple[str, str], set[Any]] = {c: set() for c in columns}
    cells: dict[tuple[str, tuple[str, str]], list[Row]] = {}
    for row in rows:
        column = (row.problem.op, row.problem.dtype)
        problems[column].add(row.problem)
        cells.setdefault((row.candidate, column), []).append(row)
    routes = {p.runtime: p.route for p in report.platforms if p.place is place}
    groups: dict[str, list[Line]] = {route: [] for route in routes.values()}
    for name, runtime in sorted({(r.candidate, r.record.runtime) for r in rows}):
        line = tuple(_cell(cells.get((name, c), []), len(problems[c])) for c in columns)
        groups.setdefault(routes.get(runtime, "not tried"), []).append((name, line))
    heads = groups if len(groups) > 1 else {"": [x for lines in groups.values() for x in lines]}
    return Matrix(place, columns, tuple((route, tuple(lines)) for route, lines in heads.items()))


def _cell(rows: Sequence[Row], of: int) -> Cell:
    right = [r for r in rows if r.ok]
    fractions = [r.sol_fraction for r in right if r.sol_fraction]
    gap = _gap(right)
    why = "; ".join(sorted({f"{r.status}: {r.reason}"[:200] for r in rows if not r.ok}))
    return Cell(
        gap,
        geometric_mean(fractions) if fractions else None,
        len(right),
        of,
        _level(gap),
        why or ("not measured" if len(right) < of else ""),
    )


def _level(gap: float | None) -> int:
    if gap is None:
        return 5
    return next((i for i, limit in enumerate((1.05, 1.5, 3.0, 10.0)) if gap <= limit), 4)


# --- ranking -----------------------------------------------------------------------------------


def _ranking(ranking: Ranking) -> dict[str, Any]:
    longest = max(t.with_fallback for t in ranking.totals) or 1.0
    lead = ranking.totals[0]
    return {
        "ranking": ranking,
        "bars": [_bar(total, longest) for total in ranking.totals],
        "waterfall": charts.waterfall(lead),
        "lead": label_of(lead),
        "fixes": [f for f in ranking.fixes if f.kind != "port" and f.share >= LEAST_SHARE],
        "ports": [f for f in ranking.fixes if f.kind == "port"],
    }


def label_of(total: Total) -> str:
    """A total's name for people."""
    return bills.WORDS.get(total.candidate, total.candidate)


def _bar(total: Total, longest: float) -> dict[str, Any]:
    segments = [
        (index, name, total.steps[name], 100 * total.steps[name] / longest)
        for index, name in enumerate(STEPS)
        if total.steps[name] > 0
    ]
    rest = total.with_fallback - total.time
    return {
        "total": total,
        "name": label_of(total),
        "segments": segments,
        "fallback": (rest, 100 * rest / longest) if total.missing else None,
    }


def _projected(device: Any, report: Report) -> dict[str, Any]:
    totals = [
        (name, len(weights.calls), *found, _bases(device, weights.calls))
        for name, weights, found in device.sums(report.workloads)
    ]
    return {"device": device, "totals": totals}


def _bases(device: Any, problems: Collection[Problem]) -> str:
    counts: dict[str, int] = {}
    for row in device.rows:
        if row.problem not in problems:
            continue
        rung = row.basis.partition(":")[0] if row.time is not None else row.basis
        counts[rung] = counts.get(rung, 0) + 1
    return "; ".join(f"{n} by {rung}" if rung else f"{n} not" for rung, n in counts.items())


def _bills(report: Report) -> list[tuple[Weights, list[bills.Line], list[tuple[str, str]]]]:
    """(workload, lines, what each of its parts is of) of every workload that has a bill."""
    lines = bills.lines(report)
    found = []
    for weights in report.workloads:
        mine = [line for line in lines if line.workload == weights.name]
        parts = dict.fromkeys((line.part, line.least) for line in mine if line.least)
        if mine:
            found.append((weights, mine, list(parts)))
    return found


# --- the rest ----------------------------------------------------------------------------------


def failures(report: Report) -> list[tuple[str, str, str, str, int, str]]:
    """(status, candidate, ops, device, how many, reason) of what did not run correctly."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for row in report.rows:
        if row.status == "ok":
            continue
        reason = row.reason if row.status != "bound_violated" else f"{row.label}: {row.reason}"
        key = (row.status, row.candidate, row.place.label, reason[:300])
        found.setdefault(key, []).append(f"{row.problem.op} {row.problem.dtype}")
    return [(s, c, _few(w), p, len(w), r) for (s, c, p, r), w in sorted(found.items())]


def _few(names: Sequence[str], most: int = 4) -> str:
    distinct = sorted(set(names))
    more = f" and {len(distinct) - most} more" if len(distinct) > most else ""
    return ", ".join(distinct[:most]) + more


def _environment(place: Place, report: Report) -> dict[str, Any]:
    records = [row.record for row in report.rows if row.place is place]
    created = sorted(r.created for r in records)
    methods = sorted({f"{r.method}, {r.cache}" for r in records if r.samples})
    return {
        "place": place,
        "first": created[0] if created else "",
        "last": created[-1] if created else "",
        "methods": methods,
        "samples": sum(len(r.samples) for r in records),
        "roofs": str(place.roofs) if place.roofs else "",
        "ways": sorted(
            {r.sol.way for r in report.rows if r.place is place and r.sol and r.sol.way}
        ),
    }


def _paths(report: Report) -> list[tuple[str, list[str], int, float | None]]:
    """(path, candidates, correct rows, geometric-mean gap) by porting path."""
    found = _grouped(report, lambda row: row.path)
    order = [*protocols.PATHS, *sorted(set(found) - set(protocols.PATHS))]
    lines = []
    for path in order:
        rows = found.get(path, [])
        names = sorted({r.candidate for r in rows})
        lines.append((path, names, sum(1 for r in rows if r.gap_best), _gap(rows)))
    return lines


def _backend_gaps(report: Report) -> dict[str, float | None]:
    """Geometric-mean gap to the best by backend, over the problems it runs."""
    return {
        name: _gap(rows) for name, rows in _grouped(report, lambda row: row.record.backend).items()
    }


def _grouped(report: Report, key: Callable[[Row], str]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in report.headlines:
        found.setdefault(key(row), []).append(row)
    return found


def _gap(rows: Sequence[Row]) -> float | None:
    gaps = [r.gap_best for r in rows if r.gap_best]
    return geometric_mean(gaps) if gaps else None
