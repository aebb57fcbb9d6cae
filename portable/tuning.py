"""Tuning: measure candidates and configs where a workload's time is, and remember.

Each problem gets a share of the budget in proportion to its weighted expected time. A first round
tries every candidate, then more configs of those near the best; a final times the best few against
each other, interleaved and paired, until it is known who is faster. The winner is who the selector
then chooses, by the records, as it will for every call: a tie goes to the safer one, the first in
order of preference. Close decisions are looked at once more at the end: what else runs on a machine
changes the ratio of two candidates from one second to another, by more than a tie.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from portable import (
    configs,
    engine,
    estimate,
    evidence,
    explaining,
    frozen,
    measure,
    records,
    registry,
)
from portable import contest as contests
from portable.backend import Config
from portable.op import Problem
from portable.records import Record
from portable.selector import Candidate
from portable.settings import current
from portable.text import time_text

Progress = Callable[[int, int, str], None]

LEAST = 0.15
"""Seconds a problem gets at least, however light it is."""
FINALISTS = 3
UNSURE = 1.5
"""A config measured fewer than MIN_SAMPLES times that took this many times its candidate's best, or
less, meets it in the final."""
OVERTIME = 1.0
"""Times the budget of a problem: what its final may take longer where it is open who is faster;
in a tuning run half of what is left for the others at the most."""
CLOSE = 1.15
"""Candidates within this factor of the one chosen meet once more, at another moment,"""
SECOND = 0.15
"""... for which this share of the budget is kept."""
NEAR = 2.5
"""Candidates within this factor of the best have their other configs tried, and meet in a final."""
ROUND, MOST = 4, 20
"""Other configs tried of each of them: at once, and in all; `portable.configs` says which."""
LEAST_GAIN = 0.005
"""Expected improvement, as a share of the time, that another round of configs must promise."""
SLOWEST = 8.0
"""Candidates expected to take this many times the best are not tried while tuning."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """One problem, tuned.

    Attributes:
        problem: the problem.
        weight: calls.
        before: name and expected time [s] of the choice before.
        record: the best record now; None when nobody ran it.
    """

    problem: Problem
    weight: float
    before: tuple[str, float]
    record: Record | None


@dataclass(slots=True)
class TuneResult:
    """What a tuning run found.

    Attributes:
        tuned: per problem, in the order tuned.
        skipped: problems that the budget did not reach.
        seconds: time taken.
    """

    tuned: list[Tuned] = field(default_factory=list)
    skipped: int = 0
    seconds: float = 0.0

    def rows(self) -> list[list[str]]:
        """(problem, chosen, time, choice before, config) as text."""
        found = []
        for t in self.tuned:
            name = contests.candidate_name(t.record) if t.record else "nobody"
            config = " ".join(f"{k}={v}" for k, v in t.record.config.items()) if t.record else ""
            spent = time_text(t.record.time) if t.record else "-"
            found.append([str(t.problem), name, spent, t.before[0], config])
        return found

    def summary(self) -> str:
        """One sentence."""
        changed = sum(
            1 for t in self.tuned if t.record and contests.candidate_name(t.record) != t.before[0]
        )
        left = f"; {self.skipped} problems were not reached" if self.skipped else ""
        return (
            f"{len(self.tuned)} problems tuned in {self.seconds:.0f} s, {changed} choices "
            f"changed{left}"
        )

    def freeze(self, path: str) -> int:
        """Write the choices to a file for `using(choices=...)`; returns their number."""
        rows = [
            (t.problem, frozen.Frozen(contests.candidate_name(t.record), dict(t.record.config)))
            for t in self.tuned
            if t.record
        ]
        return frozen.save(path, rows)


def tune(
    problems: Any,
    *,
    device: str = "cpu",
    budget: float = 60.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> TuneResult:
    """Tune problems, the ones with the largest weighted expected time first.

    Args:
        problems: name or file of a workload, or an iterable of Problem or (Problem, weight).
        device: where the data lives.
        budget: time box [s].
        seed: of values and of the order of trials.
        progress: called with (problems done, problems in all, what is tried).

    An interruption (KeyboardInterrupt) keeps what was learned so far and is raised.
    """
    weighted = _weighted(problems)
    start = time.monotonic()
    explained = [(p, w, explaining.of_problem(p, device)) for p, w in weighted]
    loads = [w * (e.choice.estimate.time if e.choice and e.choice.estimate else 0.0)
             for _, w, e in explained]  # fmt: skip
    order = sorted(range(len(explained)), key=lambda i: -loads[i])
    done = TuneResult()
    try:
        for turn, index in enumerate(order):
            left = (1 - SECOND) * budget - (time.monotonic() - start)
            if not turn:
                left = max(left, LEAST)  # the heaviest is always tuned
            if left <= 0:
                done.skipped = len(order) - turn
                break
            problem, weight, explained_now = explained[index]
            share = loads[index] / (sum(loads[i] for i in order[turn:]) or 1.0)
            fair = min(max(left * share, LEAST), left)
            overtime = min(OVERTIME * fair, (left - fair) / 2)  # leaves the others the more
            if progress is not None:
                progress(turn, len(order), _doing(problem, done))
            before = _before(explained_now)
            record = tune_problem(problem, device=device, budget=fair, overtime=overtime, seed=seed)
            done.tuned.append(Tuned(problem, weight, before, record))
        _second_looks(done, device, start + budget, seed, progress)
    finally:
        engine.refresh()
    done.seconds = time.monotonic() - start
    return done


def _second_looks(
    done: TuneResult, device: str, end: float, seed: int, progress: Progress | None
) -> None:
    """Look again at close decisions, in the order tuned, while there is time."""
    for turn, tuned in enumerate(done.tuned):
        left = end - time.monotonic()
        if left <= 0:
            return
        if progress is not None:
            progress(len(done.tuned), len(done.tuned), f"once more: {tuned.problem.op}")
        share = max(left / (len(done.tuned) - turn), LEAST)
        record = second_look(tuned.problem, device=device, budget=min(share, left), seed=seed)
        done.tuned[turn] = replace(tuned, record=record or tuned.record)


def second_look(
    problem: Problem, *, device: str = "cpu", budget: float = 0.15, seed: int = 0
) -> Record | None:
    """Time those measured here within CLOSE of the chosen one against it again; keep the records.

    Returns the record of who is chosen then; None where nobody is close.
    """
    engine.refresh_evidence()
    known = [c for c in explaining.of_problem(problem, device).candidates if _exact(c)]
    times = [c.estimate.time for c in known if c.estimate is not None]
    close = [
        (c.name, dict(c.config))
        for c, seconds in zip(known, times, strict=True)
        if seconds <= CLOSE * times[0]
    ]
    if len(close) < 2:
        return None
    again = contests.contest(
        problem, device=device, budget=budget * 0.5, overtime=budget * 0.5, only=close,
        seed=seed + 3,
    )  # fmt: skip
    records.default_store().add(again.records)
    return _chosen(problem, device, again)


def _exact(candidate: Candidate) -> bool:
    return candidate.estimate is not None and candidate.estimate.basis == estimate.EXACT


def tune_problem(
    problem: Problem,
    *,
    device: str = "cpu",
    budget: float = 1.0,
    overtime: float | None = None,
    seed: int = 0,
) -> Record | None:
    """Try configs of every candidate, then time the best few against each other; keep all records.

    Early stopping: first every candidate once with the config expected to be best; those near
    enough to the best go on with their other configs, a few at a time, as long as a model of what
    was measured promises a gain; the final is interleaved and paired, and goes on for `overtime`
    [s] at most (by default OVERTIME times the budget) until it is known who is faster. What is
    suspiciously fast is measured once more, on other values, and the slower record is kept.

    Returns the record of the winner: who is chosen now, with these records.
    """
    store = records.default_store()
    limited: dict[str, Any] = {"device": device, "budget": budget * 0.3, "seed": seed}
    known = contests.contest(problem, slowest=SLOWEST, **limited)
    if not any(r.ok for r in known.records):  # those expected to be fast all failed
        store.add(known.records)
        known = contests.contest(problem, **limited)
    store.add(known.records)
    _try_configs(known, problem, device, budget * 0.3, seed)
    finalists = _finalists(known)
    if not finalists:
        return None
    final = contests.contest(
        problem,
        device=device,
        budget=budget * 0.4,
        overtime=OVERTIME * budget if overtime is None else overtime,
        only=finalists,
        seed=seed + 1,
    )
    final.records = [
        _confirmed(r, problem, device, budget, seed) if _suspicious(r, known) else r
        for r in final.records
    ]
    store.add(final.records)
    return _chosen(problem, device, final)


def _chosen(problem: Problem, device: str, final: contests.Result) -> Record | None:
    """The final's record of who is chosen now; the fastest's where none of them is, as by the
    caller's wishes."""
    engine.refresh_evidence()
    choice = explaining.of_problem(problem, device).choice
    name, config = (choice.name, dict(choice.config)) if choice else ("", {})
    own = [r for r in final.records if r.ok and contests.candidate_name(r) == name]
    own.sort(key=lambda r: (dict(r.config) != config, _quick(r)))
    return own[0] if own else final.best()


def _try_configs(
    known: contests.Result, problem: Problem, device: str, budget: float, seed: int
) -> None:
    """Measure other configs of the candidates near the best, the most promising first; their
    records are stored and join those known."""
    searches = _searches(known, problem, device, seed)
    start = time.monotonic()
    for turn in range(MOST // ROUND):
        left = budget - (time.monotonic() - start)
        asked = [
            (name, search, index)
            for name, search in searches.items()
            if turn == 0 or search.gain() > LEAST_GAIN
            for index in search.propose(ROUND)
        ]
        if not asked or (turn and left <= 0):
            return
        rounds = min(MOST // ROUND - turn, max(_rounds(s) for _, s, _ in asked))
        found = contests.contest(
            problem,
            device=device,
            budget=max(left, budget / MOST) / rounds,
            only=[(name, search.configs[index]) for name, search, index in asked],
            seed=seed,
        )
        known.records += found.records
        records.default_store().add(found.records)
        times = {contests.entrant_name(r): _quick(r) for r in found.records if r.ok}
        for name, search, index in asked:
            label = contests.label(name, search.configs[index])
            search.add(index, times.get(label, float("inf")))


def _rounds(search: configs.Search) -> int:
    return -(-(len(search.configs) - len(search.measured)) // ROUND)


def _searches(
    first: contests.Result, problem: Problem, device: str, seed: int
) -> dict[str, configs.Search]:
    """A search per candidate within NEAR of the best that has other configs."""
    times = {contests.candidate_name(r): (_quick(r), r.config) for r in first.records if r.ok}
    if not times:
        return {}
    limit = NEAR * min(t for t, _ in times.values())
    found: dict[str, configs.Search] = {}
    for candidate in explaining.of_problem(problem, device).candidates:
        time_, tried = times.get(candidate.name, (float("inf"), {}))
        if time_ > limit or candidate.implementation is None:
            continue
        posed = candidate.posed(problem)
        every = list(candidate.implementation.configs(posed, candidate.device))
        if len(every) < 2:
            continue
        search = configs.Search(every, _expected(candidate, problem, every), seed=seed)
        for index, config in enumerate(every):
            if dict(config) == dict(tried):
                search.add(index, time_)
        found[candidate.name] = search
    return found


def _expected(candidate: Candidate, problem: Problem, every: Sequence[Config]) -> list[float]:
    """What evidence expects of each config of a candidate [s]."""
    model = evidence.model_time(candidate.device.id, registry.op(problem.op).cost(problem))
    known = evidence.known(problem.op, candidate.backend, candidate.device.runtime, problem.dtype)
    surfaces = [known.configs.get(evidence.config_key(c)) or known.pooled for c in every]
    return [estimate.estimate(s, problem, model, known.others).time for s in surfaces]


def _suspicious(record: Record, first: contests.Result) -> bool:
    """Whether the final shows somebody far faster than before, or beyond the bound."""
    before = [_quick(r) for r in first.records if r.ok and _same(r, record)]
    return record.status == "bound_violated" or (
        record.ok and bool(before) and _quick(record) < 0.5 * min(before)
    )


def _confirmed(record: Record, problem: Problem, device: str, budget: float, seed: int) -> Record:
    """The record of one more measurement, on other values, or this one where that is no slower."""
    only = [(contests.candidate_name(record), dict(record.config))]
    again = contests.contest(problem, device=device, budget=budget * 0.2, only=only, seed=seed + 2)
    for other in again.records:
        if not other.ok or _quick(other) > _quick(record):
            return other
    return record


def _quick(record: Record) -> float:
    """Time as evidence counts it: the fastest sample [s]."""
    return min(record.samples, default=float("inf"))


def _same(one: Record, other: Record) -> bool:
    return contests.entrant_name(one) == contests.entrant_name(other)


def _finalists(first: contests.Result) -> list[tuple[str, dict[str, Any]]]:
    """(candidate, config) of the best few: of each candidate its best config, the fastest first;
    then configs of theirs that may be better, but were hardly measured."""
    ranked = sorted((r for r in first.records if r.ok), key=_quick)
    best: dict[str, Record] = {}
    for record in ranked:
        best.setdefault(contests.candidate_name(record), record)
    limit = NEAR * _quick(ranked[0]) if ranked else 0.0
    near = [(name, r) for name, r in best.items() if _quick(r) <= limit][:FINALISTS]
    unsure = [
        (name, r)
        for r in ranked
        for name, own in near
        if name == contests.candidate_name(r) and not _same(r, own) and _unsure(r, own)
    ]
    return [(name, dict(r.config)) for name, r in near + unsure[:FINALISTS]]


def _unsure(record: Record, best: Record) -> bool:
    few = len(record.samples) < measure.MIN_SAMPLES
    return few and _quick(record) <= UNSURE * _quick(best)


def _doing(problem: Problem, done: TuneResult) -> str:
    """What is tried next, and what the last problem ended with."""
    last = next((t.record for t in reversed(done.tuned) if t.record), None)
    best = f"{contests.candidate_name(last)} {time_text(last.time)} <- last; " if last else ""
    return f"{best}{problem.op} {' '.join(map(str, problem.tensors[:2]))}"


def _before(explained: explaining.Explanation) -> tuple[str, float]:
    choice = explained.choice
    if choice is None or choice.estimate is None:
        return ("nobody", 0.0)
    return (choice.name, choice.estimate.time)


def _weighted(problems: Any) -> list[tuple[Problem, float]]:
    if isinstance(problems, str):
        from portable import workloads

        loaded = workloads.load(problems)
        return [(e.problem, e.weight) for e in workloads.select(loaded).problems]
    merged: dict[Problem, float] = {}
    items: Iterable[Any] = problems
    for item in items:
        problem, weight = item if isinstance(item, tuple) else (item, 1.0)
        merged[problem] = merged.get(problem, 0.0) + float(weight)
    return list(merged.items())


def tune_workloads(
    names: Sequence[str],
    *,
    device: str = "cpu",
    budget: float = 60.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> TuneResult:
    """Tune several workloads as one: each counts alike, whatever its unit of weight."""
    merged: dict[Problem, float] = {}
    for name in names:
        for problem, weight in _weighted(name):
            merged[problem] = merged.get(problem, 0.0) + weight
    return tune(merged.items(), device=device, budget=budget, seed=seed, progress=progress)


def tune_here(problem: Problem, device: str) -> None:
    """policy="tune": measure a problem at first sight, inside the user's call.

    Where the choice rests on an exact record already there is nothing to measure.
    """
    if current.get().backend is not None:
        return
    choice = explaining.of_problem(problem, device).choice
    if choice is not None and choice.estimate and choice.estimate.basis == estimate.EXACT:
        return
    tune_problem(problem, device=device, budget=1.0)
    engine.refresh_evidence()
