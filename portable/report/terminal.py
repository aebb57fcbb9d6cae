"""A report in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from portable.report import bills
from portable.report.model import Report
from portable.report.ranking import Ranking
from portable.report.rows import Row
from portable.report.summary import ratio, sentences
from portable.text import share, time_text

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

MOST_ROWS = 60
MOST_FIXES = 8


def show(report: Report, console: Console | None = None, rows: int = MOST_ROWS) -> None:
    """Print summary, facts, ranking, portability and changes."""
    from rich.console import Console
    from rich.markup import escape

    out = console or Console(highlight=False)
    out.print(f"[bold]{escape(report.title)}[/]")
    for sentence in sentences(report):
        out.print(f"• {escape(sentence)}")
    if report.rows:
        out.print()
        out.print(facts(report, rows))
    for ranking in report.rankings:
        out.print()
        out.print(ranked(ranking))
        out.print(fixes(ranking))
    for table in _portability(report):
        out.print()
        out.print(table)
    if report.projected:
        out.print()
        out.print(projected(report))
    if report.prices:
        out.print()
        out.print(costs(report))
    if report.changes is not None:
        out.print()
        out.print(changes(report))


def _new(*columns: str, title: str) -> Table:
    from rich.table import Table

    right = {"time", "±", "of SOL", "of roof", "gap", "over best", "up to", "share", "MFU", "S"}
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def _add(table: Table, *cells: str, style: str = "") -> None:
    from rich.markup import escape

    table.add_row(*map(escape, cells), style=style)


_HEAD = ("candidate", "time", "±", "of SOL", "of roof", "S", "gap", "")
_WIDTHS = (16, 8, 5, 6, 7, 4, 5, 10)


def facts(report: Report, most: int = MOST_ROWS) -> Group:
    """Headline rows, a block for each problem; narrow enough for 80 columns."""
    from itertools import groupby

    from rich.console import Group
    from rich.text import Text

    found = sorted(report.headlines, key=_order)
    title = "facts" if len(found) <= most else f"facts: {most} of {len(found)} rows"
    parts: list[Table | Text] = [Text(title, style="italic"), _block([], head=True)]
    for _, group in groupby(found[:most], key=lambda r: (r.number, id(r.place))):
        rows = list(group)
        about = f"{rows[0].problem.op} {rows[0].label}"
        if len(report.places) > 1:
            about += f" on {rows[0].place.label}"
        if rows[0].sol is not None:
            about += f" ({rows[0].sol.bound_by} binds, T_SOL {time_text(rows[0].sol.time)})"
        parts += [Text(about, style="bold"), _block(rows)]
    return Group(*parts)


def _block(rows: Sequence[Row], head: bool = False) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=head)
    for index, (name, width) in enumerate(zip(_HEAD, _WIDTHS, strict=True)):
        right = 0 < index < len(_HEAD) - 1
        table.add_column(
            name, justify="right" if right else "left", overflow="fold", min_width=width,
            no_wrap=index < len(_HEAD) - 1,
        )  # fmt: skip
    for row in rows:
        approximate = "≈" if row.sol is not None and row.sol.estimated else ""
        _add(
            table, f"  {row.candidate}",
            time_text(row.time) if row.time else "-",
            _share(row.spread),
            approximate + _share(row.sol_fraction), _share(row.roof_fraction),
            f"{row.score.value:.2f}" if row.score.value is not None else "-",
            ratio(row.gap_best) if row.gap_best else "-", _marks(row),
            style="" if row.ok else "yellow",
        )  # fmt: skip
    return table


def _order(row: Row) -> tuple[object, ...]:
    return (row.problem.op, row.problem.dtype, row.label, row.place.label, row.time or 1e30)


def _share(value: float | None) -> str:
    return share(value) if value is not None else "-"


def _marks(row: Row) -> str:
    marks = ["<- chosen"] if row.chosen else []
    if row.gap_best == 1:
        marks.append("best")
    if row.status != "ok":
        marks.append(f"{row.status}: {row.reason[:60]}")
    return ", ".join([*marks, *(f for f in row.flags if f != "estimated peak")])


def ranked(ranking: Ranking) -> Table:
    """Candidates by the time of the workload."""
    unit = f", {ranking.weights.per}" if ranking.weights.unit else ""
    table = _new(
        "candidate", "time", "over best", "problems", "where the time goes",
        title=f"{ranking.weights.name} on {ranking.place.label}{unit}",
    )  # fmt: skip
    for total in ranking.totals:
        steps = ", ".join(
            f"{name} {share(time / total.time)}"
            for name, time in total.steps.items()
            if total.time and time / total.time >= 0.005
        )
        count = f"{total.problems}/{total.problems + total.missing}"
        _add(
            table, _WORDS.get(total.candidate, total.candidate), time_text(total.with_fallback),
            ratio(total.slowdown), count, steps,
        )  # fmt: skip
    return table


_WORDS = {"chosen": "chosen by the selector", "best": "the best of each"}


def fixes(ranking: Ranking) -> Table:
    """What to fix first."""
    table = _new("up to", "share", "what", title="what to fix first")
    for fix in ranking.fixes[:MOST_FIXES]:
        _add(table, time_text(fix.gain), share(fix.share), fix.what)
    return table


def _portability(report: Report) -> list[Table]:
    tables = []
    for study in report.studies:
        if study.aside:
            continue
        members = "; ".join(f"P{n} {name}" for n, name in enumerate(study.platforms, 1))
        title = f"performance portability, {study.weights}; H = {{{members}}}"
        table = _new("application", "PP (app.)", "PP (arch.)", "coverage", "why zero", title=title)
        for result in study.results:
            if result.scope:
                continue
            _add(
                table, result.application, _share(result.app.value), _share(result.arch.value),
                share(result.app.coverage),
                "; ".join(study.reasons(result)),
            )  # fmt: skip
        tables.append(table)
    return tables


def projected(report: Report) -> Table:
    """Devices without records."""
    table = _new(
        "device", "workload", "T_SOL", "projected", "not possible",
        title="PROJECTED, not measured: speed of light, and the efficiency seen on kin",
    )  # fmt: skip
    for device in report.projected:
        for name, _, (sol, time, missing) in device.sums(report.workloads):
            _add(
                table, device.spec.name, name, time_text(sol),
                time_text(time) if time is not None else "-", str(missing) if missing else "",
            )  # fmt: skip
    return table


def costs(report: Report) -> Table:
    """What a unit of each workload costs."""
    table = _new(
        "device", "workload", "runs on", "time", "cost", "per 1M tokens", "energy",
        title="cost (≥: of a part of the workload; ≈: projected), energy at most",
    )  # fmt: skip
    for line in bills.lines(report):
        bill = line.bill
        money = (bill.cost, bill.cost_per_million_tokens)
        _add(
            table, line.device, line.workload + (", all of it" if line.part == bills.ALL else ""),
            line.runs_on, time_text(line.time),
            *(f"{line.mark}{m:.4g} {bill.currency}" if m is not None else "-" for m in money),
            f"{bill.energy:.4g} J" if bill.energy is not None else "-",
        )  # fmt: skip
    return table


def changes(report: Report) -> Table:
    """What changed against the baseline."""
    table = _new("", "op", "problem", "candidate", "what", title="against the baseline")
    for change in report.changes or ():
        if change.kind in ("same", "new"):
            continue
        row = change.row
        style = "red" if change.regression else ""
        _add(
            table, change.kind, row.problem.op, row.label, row.candidate, change.reason, style=style
        )
    return table
