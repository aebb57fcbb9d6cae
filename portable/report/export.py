"""The facts as CSV, JSON and Markdown: flat rows in SI units, names as in docs/report.md."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from portable.errors import RecordError
from portable.records import problem_to_json
from portable.report import bills
from portable.report.attribution import STEPS
from portable.report.model import Report
from portable.report.platforms import names_of
from portable.report.rows import Row
from portable.report.summary import sentences
from portable.text import share, time_text

FORMAT = 1
"""Version of the JSON form of a report."""


def rows_as_dicts(report: Report) -> list[dict[str, Any]]:
    """Every row as a flat dict; None where a figure has no meaning. Times in seconds."""
    names = names_of(report.platforms)
    return [_flat(row, report, names) for row in report.rows]


def _flat(row: Row, report: Report, names: Mapping[tuple[int, str], str]) -> dict[str, Any]:
    record, sol, cost = row.record, row.sol, row.cost
    steps = {step.name: step for step in row.steps}
    return {
        "op": row.problem.op,
        "dtype": row.problem.dtype,
        "problem": row.label,
        "device": row.place.label,
        "platform": names.get((id(row.place), record.runtime), ""),
        "hardware": row.place.hardware,
        "machine": record.machine,
        "backend": record.backend,
        "runtime": record.runtime,
        "candidate": row.candidate,
        "path": row.path,
        "config": row.config,
        "measured": True,
        "status": row.status,
        "reason": row.reason,
        "cache": record.cache,
        "method": record.method,
        "samples": len(record.samples),
        "time": row.time,
        "spread": row.spread,
        "flops": cost.flops if cost else None,
        "bytes": cost.bytes if cost else None,
        "intensity": cost.intensity if cost and cost.bytes else None,
        "ridge": sol.ridge if sol and sol.ridge < float("inf") else None,
        "bound_by": sol.bound_by if sol else None,
        "sol_time": sol.time if sol else None,
        "sol_estimated": sol.estimated if sol else None,
        "sol_fraction": row.sol_fraction,
        "roof_time": row.roof.time if row.roof else None,
        "roof_fraction": row.roof_fraction,
        "mfu": row.mfu,
        "best_time": row.best,
        "best": row.best_name or None,
        "native_time": row.baseline,
        "native": row.baseline_name or None,
        "gap_best": row.gap_best,
        "gap_native": row.gap_native,
        "application_efficiency": row.application_efficiency,
        "architectural_efficiency": row.sol_fraction,
        "sol_score": row.score.value,
        "sol_score_status": row.score.status,
        **{f"step_{n.replace(' ', '_')}": steps[n].time if n in steps else None for n in STEPS},
        "headline": row.headline,
        "chosen": row.chosen,
        **_weights(row, report),
        "flags": "; ".join(row.flags),
        "versions": " ".join(f"{k}={v}" for k, v in sorted(record.versions.items())),
        "implementation": record.implementation,
        "source_hash": record.source_hash,
        "created": record.created,
        "older_records": row.older,
    }


def _weights(row: Row, report: Report) -> dict[str, Any]:
    if not report.weighted:
        return {}
    return {f"calls[{w.name}]": w.of(row.problem) for w in report.workloads}


def csv_text(report: Report) -> str:
    """CSV with a head; empty cells where a figure has no meaning."""
    rows = rows_as_dicts(report)
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _safe(v) for k, v in row.items()} for row in rows)
    return out.getvalue()


def _safe(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula gets a leading apostrophe."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def json_data(report: Report) -> dict[str, Any]:
    """The whole report as plain JSON data."""
    return {
        "format": FORMAT,
        "title": report.title,
        "created": report.created,
        "sources": list(report.sources),
        "summary": sentences(report),
        "rows": [
            {**flat, "problem_key": problem_to_json(row.problem)}
            for row, flat in zip(report.rows, rows_as_dicts(report), strict=True)
        ],
        "rankings": [_ranking(r) for r in report.rankings],
        "portability": [_study(s) for s in report.studies],
        "projected": [_projected(p) for p in report.projected],
        "costs": [_cost(line) for line in bills.lines(report)],
        "changes": None if report.changes is None else [_change(c) for c in report.changes],
        "port_cost": None if report.port_cost is None else report.port_cost.to_json(),
    }


def _ranking(ranking: Any) -> dict[str, Any]:
    return {
        "workload": ranking.weights.name,
        "device": ranking.place.label,
        "sol_time": ranking.sol_time,
        "roof_time": ranking.roof_time,
        "totals": [
            {
                "candidate": t.candidate, "time": t.time, "with_fallback": t.with_fallback,
                "slowdown": t.slowdown, "missing": t.missing, "problems": t.problems,
                "steps": dict(t.steps),
            }
            for t in ranking.totals
        ],
        "fixes": [
            {"kind": f.kind, "where": f.where, "gain": f.gain, "share": f.share, "what": f.what}
            for f in ranking.fixes
        ],
    }  # fmt: skip


def _study(study: Any) -> dict[str, Any]:
    def one(found: Any) -> dict[str, Any]:
        return {
            "value": found.value, "coverage": found.coverage, "subset": found.subset,
            "efficiencies": dict(found.efficiencies), "reason": found.reason,
        }  # fmt: skip

    return {
        "workload": study.weights,
        "formed_by": study.formed_by,
        "platforms": [
            {"name": p.name, "device": p.place.label, "route": p.route, "measured": p.measured}
            for p in study.members
        ],
        "results": [
            {
                "application": r.application, "scope": r.scope,
                "application_efficiency": one(r.app),
                "architectural_efficiency": one(r.arch), "why": dict(r.why),
            }
            for r in study.results
        ],
    }  # fmt: skip


def _projected(device: Any) -> dict[str, Any]:
    return {
        "hardware": device.spec.key,
        "measured": False,
        "rows": [
            {
                "problem": p.label, "op": p.problem.op, "dtype": p.problem.dtype,
                "sol_time": p.sol.time if p.sol else None,
                "bound_by": p.sol.bound_by if p.sol else None,
                "projected_time": p.time, "low": p.low, "high": p.high, "basis": p.basis,
            }
            for p in device.rows
        ],
    }  # fmt: skip


def _cost(line: Any) -> dict[str, Any]:
    return {
        "workload": line.workload, "part": line.part, "device": line.device,
        "measured": line.measured, "runs_on": line.runs_on, "devices": line.devices,
        "time": line.time,
        "cost": line.bill.cost, "cost_per_million_tokens": line.bill.cost_per_million_tokens,
        "currency": line.bill.currency, "energy_at_most": line.bill.energy,
        "not_in_the_cost": line.least,
    }  # fmt: skip


def _change(change: Any) -> dict[str, Any]:
    return {
        "kind": change.kind, "op": change.row.problem.op, "problem": change.row.label,
        "device": change.row.place.label, "candidate": change.row.candidate,
        "before": change.before, "after": change.after, "ratio": change.ratio,
        "low": change.low, "high": change.high, "reason": change.reason,
    }  # fmt: skip


def markdown_text(report: Report) -> str:
    """Summary, rankings and the headline rows as Markdown tables."""
    lines = [f"# {report.title}", "", *(f"- {s}" for s in sentences(report)), ""]
    for ranking in report.rankings:
        lines += [f"## {ranking.weights.name} on {ranking.place.label}", ""]
        rows = [
            [t.candidate, time_text(t.with_fallback), f"{t.slowdown:.2f}",
             f"{t.problems}/{t.problems + t.missing}"]
            for t in ranking.totals
        ]  # fmt: skip
        lines += [*_table(["candidate", "time", "over best", "problems"], rows), ""]
        fixes = [[time_text(f.gain), share(f.share), f.what] for f in ranking.fixes[:10]]
        lines += ["What to fix first:", "", *_table(["up to", "share", "what"], fixes), ""]
    lines += _portability_lines(report) + _projected_lines(report)
    head = ["op", "problem", "device", "candidate", "time", "of SOL", "of roof", "gap", "status"]
    body = [
        [r.problem.op, r.label, r.place.label, r.candidate + (" (chosen)" if r.chosen else ""),
         time_text(r.time) if r.time else "-", _share(r.sol_fraction), _share(r.roof_fraction),
         f"{r.gap_best:.2f}" if r.gap_best else "-", r.status]
        for r in report.headlines
    ]  # fmt: skip
    lines += ["## Facts", "", *_table(head, body), ""]
    if report.changes is not None:
        changed = [
            [c.kind, c.row.problem.op, c.row.label, c.row.candidate, c.reason]
            for c in report.changes
            if c.kind != "same"
        ]
        lines += ["## Against the baseline", ""]
        lines += _table(["", "op", "problem", "candidate", "what"], changed)
    return "\n".join(lines).rstrip() + "\n"


def _portability_lines(report: Report) -> list[str]:
    lines = []
    for study in (s for s in report.studies if not s.aside):
        lines += [f"## Performance portability, {study.weights}", ""]
        lines += [f"- P{n}: {name}" for n, name in enumerate(study.platforms, 1)] + [""]
        head = ["application", "PP (application)", "PP (architectural)", "coverage",
                *(f"e P{n}" for n in range(1, len(study.platforms) + 1)), "why zero"]  # fmt: skip
        rows = [
            [r.application, _share(r.app.value), _share(r.arch.value), share(r.app.coverage),
             *(_share(r.app.efficiencies.get(name)) for name in study.platforms),
             "; ".join(study.reasons(r))]
            for r in study.results if not r.scope
        ]  # fmt: skip
        lines += [*_table(head, rows), ""]
    return lines


def _projected_lines(report: Report) -> list[str]:
    if not report.projected:
        return []
    rows = [
        [device.spec.name, name, time_text(sol), time_text(time) if time is not None else "-"]
        for device in report.projected
        for name, _, (sol, time, _) in device.sums(report.workloads)
    ]
    head = ["device", "workload", "T_SOL", "projected"]
    return ["## Projected, not measured", "", *_table(head, rows), ""]


def _share(value: float | None) -> str:
    return share(value) if value is not None else "-"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in cells) + " |"

    return [line(head), line(["---"] * len(head)), *map(line, rows)]


def write_csv(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the facts as CSV."""
    _write(path, csv_text(report))


def write_json(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the whole report as JSON."""
    _write(path, json.dumps(json_data(report), indent=1, allow_nan=False) + "\n")


def write_markdown(report: Report, path: str | os.PathLike[str]) -> None:
    """Write summary, rankings and headline rows as Markdown."""
    _write(path, markdown_text(report))


def _write(path: str | os.PathLike[str], text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error}") from None
