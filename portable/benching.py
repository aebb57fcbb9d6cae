"""Benchmarks of workloads: every candidate of every problem, and its distance from SOL."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from portable import contest as contests
from portable import engine, explaining, machine, records, registry
from portable.op import Problem
from portable.text import share, time_text

if TYPE_CHECKING:
    from rich.table import Table

    from portable.records import Record
    from portable.report import Report, Weights
    from portable.workloads import Selection, Weighted

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Benched:
    """One problem of a workload, measured.

    Attributes:
        problem: what was computed.
        weight: calls per unit of the workload.
        note: which layer it is.
        result: what the contest found.
        chosen: name of the candidate that a call would have run on before this measurement.
    """

    problem: Problem
    weight: float
    note: str
    result: contests.Result
    chosen: str


@dataclass(slots=True)
class WorkloadBench:
    """A workload, measured.

    Attributes:
        weights: how often it calls the selected problems, and what share of it they are.
        problems: the measured ones, by share.
    """

    weights: Weights
    problems: list[Benched] = field(default_factory=list)


def bench(
    names: Sequence[str],
    *,
    ops: Sequence[str] | None = None,
    device: str = "cpu",
    backends: Sequence[str] | None = None,
    share: float = 0.9,
    limit: int = 24,
    budget: float = 1.5,
    scale: str = "cpu",
    slowest: float = float("inf"),
    progress: Progress | None = None,
) -> dict[str, WorkloadBench]:
    """Measure the weightiest problems of workloads; every record goes to the store.

    Raises:
        UnknownNameError: no such workload, op, device or backend.
    """
    from portable import report, workloads

    for name in ops or ():
        registry.op(name)
    for name in backends or ():
        registry.backend(name.partition("[")[0])
    chosen, loads = {}, {}
    for name in names:
        loads[name] = loaded = workloads.load(name)
        chosen[name] = _with_every_op(
            workloads.select(loaded, share=share, limit=limit, scale=scale, ops=ops),
            workloads.problems(loaded, scale) if ops is None else [],
        )
    total = sum(len(s.problems) for s in chosen.values())
    done, found = 0, {}
    for name, selection in chosen.items():
        found[name] = here = WorkloadBench(report.from_selection(loads[name], selection))
        for entry in selection.problems:
            if progress is not None:
                progress(done, total, f"{name}: {entry.note or entry.problem.op}")
            choice = _choice(entry.problem, device)
            result = contests.contest(
                entry.problem,
                device=device,
                budget=budget,
                backends=backends,
                slowest=slowest,
                stages=True,
            )
            records.default_store().add(result.records)
            here.problems.append(Benched(entry.problem, entry.weight, entry.note, result, choice))
            done += 1
    engine.refresh()
    return found


def _with_every_op(selection: Selection, everything: Sequence[Weighted]) -> Selection:
    """The selection, and the weightiest problem of every op that it leaves out."""
    seen = {w.problem.op for w in selection.problems}
    more = []
    for weighted in everything:
        if weighted.problem.op not in seen:
            seen.add(weighted.problem.op)
            more.append(weighted)
    return replace(
        selection,
        problems=(*selection.problems, *more),
        share=selection.share + sum(w.share for w in more),
        scaled=selection.scaled + sum(w.scaled for w in more),
    )


def _choice(problem: Problem, device: str) -> str:
    candidate = explaining.of_problem(problem, device).choice
    return candidate.name if candidate else "-"


def write(path: str, benches: Iterable[WorkloadBench]) -> int:
    """All records as JSON lines; returns their number."""
    from portable.records import files

    return files.write_jsonl(path, _records(benches))


def write_html(
    path: str,
    benches: Sequence[WorkloadBench],
    hardware: Sequence[str] = (),
    crosscompile: Any = None,
) -> Report:
    """One self-contained page, with what the selector chose beforehand marked; what it shows.

    Args:
        path: of the page.
        benches: what was measured.
        hardware: entries of the hardware database to project onto.
        crosscompile: data of `portable.crosscompile.show.data`, for a section of its own.
    """
    from portable import port_cost, report

    made = report.build(
        _records(benches),
        workloads=[b.weights for b in benches],
        chosen={p.problem: p.chosen for b in benches for p in b.problems},
        hardware=hardware,
        crosscompile=crosscompile,
        port_cost=port_cost.counted(),
        title="How far from the speed of light",
        sources=["this run"],
    )
    report.write_html(made, path)
    return made


def _records(benches: Iterable[WorkloadBench]) -> list[Record]:
    results = [p.result for b in benches for p in b.problems]
    return [r for result in results for r in (*result.records, *contests.refusals(result))]


def table(name: str, bench: WorkloadBench) -> Table:
    """Every problem with every candidate's time, SOL share and roof share."""
    from rich.table import Table

    missing = ", ".join(f"{op} {share(s)}" for op, s in bench.weights.unmapped.items())
    covered = share(bench.weights.covered)
    title = f"{name}: {len(bench.problems)} problems, {covered} of its roofline time"
    view = Table(
        "problem", "share", "backend", "median", "±", "of SOL", "of roof", "binds", "",
        title=title + (f"; no op of ours for {missing}" if missing else ""), box=None,
    )  # fmt: skip
    for row in bench.problems:
        _add_problem(view, row)
    return view


def _add_problem(view: Table, row: Benched) -> None:
    from rich.markup import escape

    cost = registry.op(row.problem.op).cost(row.problem)
    ordered = sorted(row.result.records, key=lambda r: r.time)
    first = True
    for record in ordered:
        physical = machine.device(record.device.id)
        sol, roof = physical.speed_of_light(cost), physical.roof_time(cost)
        label = f"{row.problem.op} {row.note}".strip() if first else ""
        marks = " ".join(_marks(record, row, ordered))
        name = escape(contests.candidate_name(record))
        if record.samples:
            view.add_row(
                label, f"x{row.weight:g}" if first else "", name, time_text(record.time),
                share(record.spread), share(sol.time / record.time) if sol else "-",
                share(roof / record.time) if roof else "-", sol.bound_by if sol else "-", marks,
            )  # fmt: skip
        else:
            view.add_row(label, "", name, record.status, "", "", "", "", escape(record.reason[:60]))
        first = False


def _marks(record: Record, row: Benched, ordered: Sequence[Record]) -> list[str]:
    marks = []
    if contests.candidate_name(record) == row.chosen:
        marks.append("<- chosen")
    if record is ordered[0]:
        marks.append("best")
    if record.cache == "warm":
        marks.append("warm")
    if record.status != "ok":
        marks.append(record.status)
    return marks


def regret(row: Benched) -> float | None:
    """Time of the chosen candidate over the best one's; None when it was not timed."""
    times = _times(row)
    return times[row.chosen] / min(times.values()) if row.chosen in times else None


def against(row: Benched, name: str) -> float | None:
    """Time of one candidate over the chosen one's: what choosing gains over "always this one"."""
    times = _times(row)
    if name not in times or row.chosen not in times:
        return None
    return times[name] / times[row.chosen]


def _times(row: Benched) -> dict[str, float]:
    """Best time by candidate, of those that were right."""
    found: dict[str, float] = {}
    for record in row.result.records:
        if record.samples and record.status in ("ok", "bound_violated"):
            name = contests.candidate_name(record)
            found[name] = min(record.time, found.get(name, math.inf))
    return found
