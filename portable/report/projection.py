"""Devices without records: their speed of light, and times *projected* from what kin reached.

    projected time = max(T_SOL of the device / efficiency seen on its kin, LAUNCH_FLOOR)

The efficiency is the median SOL fraction of the best candidate on the nearest measured kin: the
same op and dtype on the same architecture, else on the same vendor and kind, else on the same kind
of device, else on anything. How far off the kin is, is part of every projection. A projection is
an expectation, never a measurement, and views keep the two apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from portable.device import DeviceSpec
from portable.machine import LAUNCH_FLOOR
from portable.op import Problem
from portable.report.places import Place
from portable.report.ranking import best_of, table_of
from portable.report.rows import Row, cost_of, short, sol_of
from portable.report.weights import Weights
from portable.roofline import SpeedOfLight
from portable.stats import median

RUNGS = ("same architecture", "same vendor and kind", "same kind of device", "any device (weak)")


@dataclass(frozen=True, slots=True)
class Seen:
    """An efficiency seen on a measured device: the best candidate's SOL fraction."""

    op: str
    dtype: str
    place: Place
    fraction: float


@dataclass(frozen=True, slots=True)
class Projection:
    """One problem on one device that nobody measured.

    Attributes:
        problem, label: what is computed.
        sol: its speed of light there; None where the device has no peak for a dtype.
        time: projected [s]; None without kin or bound.
        low, high: [s] by the best and the worst efficiency seen on the kin.
        basis: one of RUNGS, with what agreed (op and dtype, op, anything).
    """

    problem: Problem
    label: str
    sol: SpeedOfLight | None
    time: float | None
    low: float | None
    high: float | None
    basis: str


Sum = tuple[float, float | None, int]
"""(T_SOL, projected time or None, problems without a bound) of a workload."""


@dataclass(slots=True)
class Projected:
    """A device without records.

    Attributes:
        spec: its entry in the hardware database.
        rows: one per problem.
        totals: by workload name, over the problems that were measured elsewhere.
        whole: the same over all problems of a workload, where they are more.
    """

    spec: DeviceSpec
    rows: list[Projection]
    totals: dict[str, Sum] = field(default_factory=dict)
    whole: dict[str, tuple[Weights, Sum]] = field(default_factory=dict)

    def sums(self, workloads: Iterable[Weights]) -> Iterator[tuple[str, Weights, Sum]]:
        """(name, weights, sum) of each workload's measured part, then of all of it if that is more.

        Args:
            workloads: the measured parts.
        """
        for part in workloads:
            yield part.name, part, self.totals[part.name]
            if part.name in self.whole:
                yield (f"{part.name}, all of it", *self.whole[part.name])


def project(
    names: Iterable[str],
    rows: Sequence[Row],
    places: Sequence[Place],
    workloads: Sequence[Weights],
    whole: Sequence[Weights] = (),
) -> list[Projected]:
    """Projections of hardware entries onto the problems of workloads.

    Args:
        names: hardware entries.
        rows, places: what was measured.
        workloads: the measured part of each.
        whole: the same workloads with all of their problems.

    Raises:
        UnknownNameError: the hardware database has no such entry.
    """
    from portable import hwdb

    seen = seen_on(rows, places)
    problems = list(dict.fromkeys([*(p for w in (*workloads, *whole) for p in w.calls)]))
    found = []
    for name in names:
        spec = hwdb.get(name)
        listed = [_projection(p, spec, seen) for p in problems]
        by_problem = {p.problem: p for p in listed}
        totals = {w.name: _total(w, by_problem) for w in workloads}
        more = [
            w for w, part in zip(whole, workloads, strict=False) if len(w.calls) > len(part.calls)
        ]
        all_of_it = {w.name: (w, _total(w, by_problem)) for w in more}
        found.append(Projected(spec, listed, totals, all_of_it))
    return found


def seen_on(rows: Sequence[Row], places: Sequence[Place]) -> list[Seen]:
    """SOL fractions of the best candidate of every problem on every measured device."""
    found = []
    for place in places:
        for candidates in table_of(rows, place).values():
            best = best_of(candidates)
            if best.sol_fraction:
                problem = best.problem
                found.append(Seen(problem.op, problem.dtype, place, best.sol_fraction))
    return found


def _projection(problem: Problem, spec: DeviceSpec, seen: Sequence[Seen]) -> Projection:
    sol = sol_of(cost_of(problem), spec)
    kin, basis = _kin(problem, spec, seen)
    if sol is None or not kin:
        reason = f"{spec.name} has no peak for its dtype" if sol is None else "nothing measured"
        return Projection(problem, short(problem), sol, None, None, None, reason)
    fractions = [s.fraction for s in kin]
    return Projection(
        problem,
        short(problem),
        sol,
        max(sol.time / median(fractions), LAUNCH_FLOOR),
        max(sol.time / max(fractions), LAUNCH_FLOOR),
        max(sol.time / min(fractions), LAUNCH_FLOOR),
        basis,
    )


def _kin(problem: Problem, spec: DeviceSpec, seen: Sequence[Seen]) -> tuple[list[Seen], str]:
    for rung, here in zip(RUNGS, _rungs(spec, seen), strict=True):
        same_op = [s for s in here if s.op == problem.op]
        same = [s for s in same_op if s.dtype == problem.dtype]
        for what, kin in ((f"{problem.op} {problem.dtype}", same), (problem.op, same_op)):
            if kin:
                return kin, f"{rung}: {what}, {len(kin)} seen"
        if here:
            return here, f"{rung}: other ops, {len(here)} seen"
    return [], ""


def _rungs(spec: DeviceSpec, seen: Sequence[Seen]) -> list[list[Seen]]:
    """What was seen, by how near the device is."""
    known = [(s, s.place.spec) for s in seen if s.place.spec is not None]
    return [
        [s for s, kin in known if kin.architecture == spec.architecture],
        [s for s, kin in known if (kin.vendor, kin.kind) == (spec.vendor, spec.kind)],
        [s for s, kin in known if kin.kind == spec.kind],
        [s for s, _ in known],
    ]


def _total(weights: Weights, rows: dict[Problem, Projection]) -> Sum:
    sol = projected = 0.0
    missing = 0
    for problem, calls in weights.calls.items():
        row = rows[problem]
        if row.sol is None:
            missing += 1
            continue
        sol += calls * row.sol.time
        projected += calls * row.time if row.time is not None else math.nan
    return sol, projected if math.isfinite(projected) else None, missing
