"""Workload-weighted ranking, and what to fix first: which backend, which fix, how much time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from portable.op import Problem
from portable.report.attribution import STEPS
from portable.report.places import Place
from portable.report.rows import Row, identity
from portable.report.weights import Weights
from portable.text import share, time_text

Table = dict[Problem, dict[str, Row]]
"""Correct headline rows of one device: problem -> candidate -> row."""


def table_of(rows: Sequence[Row], place: Place) -> Table:
    """Correct headline rows of a device, by problem and candidate."""
    found: Table = {}
    for row in rows:
        if row.place is place and row.headline and row.ok:
            found.setdefault(identity(row.problem), {})[row.candidate] = row
    return found


def best_of(candidates: Mapping[str, Row]) -> Row:
    """The fastest row of a problem."""
    return min(candidates.values(), key=lambda r: r.time or 0.0)


@dataclass(frozen=True, slots=True)
class Total:
    """Time of a workload when it always runs on one candidate.

    Attributes:
        candidate: its name; "chosen" and "best" are the selector's and the best possible choice.
        time: [s] per unit of the workload over the problems it runs.
        with_fallback: [s] when the best other candidate takes what it does not run.
        slowdown: `with_fallback` over the best possible.
        steps: attribution of `time` by step.
        missing: problems it does not run correctly.
        problems: problems it runs.
        unknown: steps that no record tells; their time is inside of another step.
    """

    candidate: str
    time: float
    with_fallback: float
    slowdown: float
    steps: Mapping[str, float]
    missing: int
    problems: int
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Fix:
    """Something that would save time.

    Attributes:
        kind: "choice", "ceiling", "kernel", "copies", "launch" or "port".
        where: op and candidate.
        gain: [s] per unit of the workload, at the most.
        share: of the time now: as chosen, or at its best where no choice is known.
        what: a sentence.
    """

    kind: str
    where: str
    gain: float
    share: float
    what: str


@dataclass(slots=True)
class Ranking:
    """A workload on a device.

    Attributes:
        weights: the workload.
        place: the device.
        totals: candidates, best first; the choice and the best possible lead.
        sol_time: [s] per unit by the datasheet, None when unknown for a problem.
        roof_time: [s] per unit by the measured roof, None when unknown for a problem.
        fixes: what to fix first, by gain.
        unmeasured: problems of the workload that have no correct row here.
        problems: problems that have.
    """

    weights: Weights
    place: Place
    totals: list[Total]
    sol_time: float | None
    roof_time: float | None
    fixes: list[Fix] = field(default_factory=list)
    unmeasured: list[Problem] = field(default_factory=list)
    problems: int = 0


def rank(rows: Sequence[Row], place: Place, weights: Weights) -> Ranking | None:
    """Totals and fixes of a workload on a device; None when none of its problems ran there."""
    table = table_of(rows, place)
    here = {p: table[p] for p in weights.calls if p in table}
    if not here:
        return None
    best = {p: best_of(c) for p, c in here.items()}
    names = sorted({name for candidates in here.values() for name in candidates})
    totals = [_total(name, _runs_on(name, here), best, weights) for name in names]
    totals.sort(key=lambda t: (t.with_fallback, t.candidate))
    chosen = {p: next((r for r in c.values() if r.chosen), None) for p, c in here.items()}
    leaders = [_total("best", best.get, best, weights)]
    if any(chosen.values()):
        leaders.insert(0, _total("chosen", chosen.get, best, weights))
    return Ranking(
        weights,
        place,
        leaders + totals,
        _bound(best, weights, lambda r: r.sol.time if r.sol else None),
        _bound(best, weights, lambda r: r.roof.time if r.roof else None),
        _fixes(here, best, chosen, weights),
        [p for p in weights.calls if p not in here],
        len(here),
    )


def _runs_on(name: str, here: Table) -> Callable[[Problem], Row | None]:
    return lambda problem: here[problem].get(name)


def _total(
    name: str,
    pick: Callable[[Problem], Row | None],
    best: Mapping[Problem, Row],
    weights: Weights,
) -> Total:
    own = fallback = ideal = 0.0
    steps = dict.fromkeys(STEPS, 0.0)
    unknown, ran = set(STEPS), 0
    for problem, fastest in best.items():
        calls, row = weights.calls[problem], pick(problem)
        assert fastest.time is not None
        ideal += calls * fastest.time
        if row is None or row.time is None:
            fallback += calls * fastest.time
            continue
        ran += 1
        own += calls * row.time
        for step in row.steps:
            steps[step.name] += calls * step.time
            if step.how != "unknown":
                unknown.discard(step.name)
    fallback += own
    return Total(
        name, own, fallback, fallback / ideal, steps, len(best) - ran, ran, frozenset(unknown)
    )  # fmt: skip


def _bound(
    best: Mapping[Problem, Row], weights: Weights, of: Callable[[Row], float | None]
) -> float | None:
    bounds = [(weights.calls[p], of(r)) for p, r in best.items()]
    if any(b is None for _, b in bounds):
        return None
    return sum(calls * (b or 0.0) for calls, b in bounds)


# --- fixes -------------------------------------------------------------------------------------

_ADVICE = {
    "ceiling": "the device does not reach its datasheet here: clocks, power limit, memory "
    "configuration or a datasheet of the whole chip; no kernel can win this",
    "kernel": "a better kernel or config: tune it, fuse it with its neighbours, or port the winner",
    "copies": "keep operands in the layout and library of the kernel, or take strided operands",
    "launch": "bind the call, batch or fuse small problems, capture a graph",
    "unexplained": "alone it is faster than among its rivals: threads of another library still "
    "spinning, or a busy machine",
}


def _fixes(
    here: Table, best: Mapping[Problem, Row], chosen: Mapping[Problem, Row | None], weights: Weights
) -> list[Fix]:
    # Shares are of the time now: where the selector sent it, or at its best.
    total = sum(weights.calls[p] * ((chosen.get(p) or r).time or 0.0) for p, r in best.items())
    found = [*_choice_fixes(best, chosen, weights, total), *_step_fixes(best, weights, total)]
    found += _port_fixes(here, best, weights, total)
    return sorted(found, key=lambda f: -f.gain)


def _choice_fixes(
    best: Mapping[Problem, Row],
    chosen: Mapping[Problem, Row | None],
    weights: Weights,
    total: float,
) -> list[Fix]:
    gains: dict[tuple[str, str], float] = {}
    better: dict[tuple[str, str], set[str]] = {}
    for problem, fastest in best.items():
        row = chosen.get(problem)
        if row is None or row is fastest or not row.time or not fastest.time:
            continue
        key = (problem.op, row.candidate)
        gains[key] = gains.get(key, 0.0) + weights.calls[problem] * (row.time - fastest.time)
        better.setdefault(key, set()).add(fastest.candidate)
    return [
        Fix(
            "choice",
            op,
            gain,
            gain / total,
            f"{op} was sent to {taken}; {', '.join(sorted(better[op, taken]))} is faster: tune, "
            "so that the records say so",
        )
        for (op, taken), gain in gains.items()
        if gain > 0
    ]


def _step_fixes(best: Mapping[Problem, Row], weights: Weights, total: float) -> list[Fix]:
    """Losses of the best candidates by op; the ceiling, which no kernel can win, as one."""
    gains: dict[tuple[str, str], float] = {}
    spent: dict[str, float] = {"": 0.0}
    ran: dict[str, set[str]] = {"": set()}
    for problem, row in best.items():
        op, calls = problem.op, weights.calls[problem]
        for place in ("", op):
            spent[place] = spent.get(place, 0.0) + calls * (row.time or 0.0)
        ran.setdefault(op, set()).add(row.candidate)
        for step in row.steps:
            if step.name in _ADVICE and step.time > 0:
                key = (step.name, "" if step.name == "ceiling" else op)
                gains[key] = gains.get(key, 0.0) + calls * step.time
    return [
        Fix(kind, op or "all ops", gain, gain / total, _what(kind, op, gain / spent[op], ran[op]))
        for (kind, op), gain in gains.items()
    ]


def _what(kind: str, op: str, part: float, ran: set[str]) -> str:
    of = f"{op} at its best ({', '.join(sorted(ran))})" if op else "all of it"
    return f"{share(part)} of {of} is {_WORD[kind]}: {_ADVICE[kind]}"


_WORD = {
    "ceiling": "ceiling loss", "kernel": "kernel loss", "copies": "copies",
    "launch": "launch and dispatch", "unexplained": "unexplained",
}  # fmt: skip


def _port_fixes(
    here: Table, best: Mapping[Problem, Row], weights: Weights, total: float
) -> list[Fix]:
    """What a backend loses against the best, for whoever is bound to that backend."""
    lost: dict[tuple[str, str], tuple[float, float, Row]] = {}
    for problem, candidates in here.items():
        fastest = best[problem]
        for name, row in candidates.items():
            if row is fastest or not row.time or not fastest.time:
                continue
            gap = weights.calls[problem] * (row.time - fastest.time)
            old = lost.get((problem.op, name), (0.0, 0.0, row))
            worst = row if (row.gap_best or 0) > (old[2].gap_best or 0) else old[2]
            lost[problem.op, name] = (
                old[0] + gap,
                old[1] + weights.calls[problem] * row.time,
                worst,
            )
    return [
        Fix("port", f"{op} on {name}", gap, gap / total,
            f"{name} needs {time_text(spent)} for {op}, {time_text(gap)} more than the best; "
            f"widest: {worst.label}, {worst.gap_best or 1:.2g} times {worst.best_name}")
        for (op, name), (gap, spent, worst) in lost.items()
    ]  # fmt: skip
