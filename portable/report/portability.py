"""Performance portability of every backend over the declared platforms, per op and as a whole.

Efficiency of an application on a platform, for a workload:
    application efficiency   = sum(w T_best) / sum(w T),  T_best: best known on that device
    architectural efficiency = sum(w T_SOL) / sum(w T)
over all problems somebody ran correctly on that device. One problem that the application does not
run correctly there makes the platform unsupported, and PP zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portable import roofline
from portable.op import Problem
from portable.report.places import Place
from portable.report.ranking import Table, best_of, table_of
from portable.report.rows import Row
from portable.report.weights import Weights
from portable.roofline import Portability

CHOSEN = "portable"
"""The application that runs each problem where the selector sends it (or, without choices, on the
best candidate)."""


@dataclass(frozen=True, slots=True)
class Platform:
    """A member of H: a device, or a device by one of its drivers."""

    name: str
    place: Place
    runtime: str | None = None

    def takes(self, row: Row) -> bool:
        """Whether a row was measured on it."""
        return self.runtime is None or row.record.runtime == self.runtime


@dataclass(frozen=True, slots=True)
class Result:
    """One application over H.

    Attributes:
        application: backend name, or CHOSEN.
        scope: an op, or "" for the whole workload.
        app: PP by application efficiency.
        arch: PP by architectural efficiency (share of the datasheet's speed of light).
        cascade: (platform, efficiency, PP so far) by application efficiency.
        why: why a platform is missing, by platform.
    """

    application: str
    scope: str
    app: Portability
    arch: Portability
    cascade: list[tuple[str, float, float]]
    why: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Study:
    """All applications over one declared H.

    Attributes:
        platforms: H.
        weights: name of the workload.
        results: whole workload first, then by op.
        by_driver: whether H tells the drivers of one device apart.
    """

    platforms: tuple[str, ...]
    weights: str
    results: tuple[Result, ...]
    by_driver: bool = False


def devices(places: Sequence[Place]) -> list[Platform]:
    """H = the measured devices."""
    return [Platform(place.label, place) for place in places]


def drivers(rows: Sequence[Row], places: Sequence[Place]) -> list[Platform]:
    """H = the measured devices, each by every driver of it."""
    found = []
    for place in places:
        runtimes = {row.record.runtime for row in rows if row.place is place}
        for runtime in sorted(runtimes):
            name = f"{place.label} · {runtime}" if runtime else place.label
            found.append(Platform(name, place, runtime))
    return found


def study(rows: Sequence[Row], platforms: Sequence[Platform], weights: Weights) -> Study:
    """PP of every backend and of the selector's choice over H.

    Problems of the workload that nobody ran on any platform are left out; those that only some
    platforms saw count there.
    """
    tables = {p.name: table_of(rows, p.place) for p in platforms}
    applications = sorted({r.record.backend for r in rows if r.headline})
    ops = sorted({p.op for t in tables.values() for p in t if p in weights.calls})
    results = [
        _result(application, scope, platforms, tables, weights)
        for scope in ["", *ops]
        for application in [CHOSEN, *applications]
    ]
    by_driver = any(p.runtime is not None for p in platforms)
    return Study(tuple(p.name for p in platforms), weights.name, tuple(results), by_driver)


def _result(
    application: str,
    scope: str,
    platforms: Sequence[Platform],
    tables: Mapping[str, Table],
    weights: Weights,
) -> Result:
    app: dict[str, float | None] = {}
    arch: dict[str, float | None] = {}
    why: dict[str, str] = {}
    for platform in platforms:
        app[platform.name], arch[platform.name], why[platform.name] = _efficiencies(
            application, scope, platform, tables[platform.name], weights
        )
    names = [p.name for p in platforms]
    return Result(
        application,
        scope,
        roofline.performance_portability(app, names),
        roofline.performance_portability(arch, names),
        roofline.cascade(app, names),
        {name: reason for name, reason in why.items() if reason},
    )


def _efficiencies(
    application: str, scope: str, platform: Platform, table: Table, weights: Weights
) -> tuple[float | None, float | None, str]:
    own = best = sol = 0.0
    bounded = True
    wanted = [p for p in table if p in weights.calls and scope in ("", p.op)]
    if not wanted:
        return None, None, "nothing of this was measured there"
    missing = []
    for problem in wanted:
        row = _pick(application, table[problem], platform)
        if row is None or row.time is None:
            missing.append(problem)
            continue
        calls, fastest = weights.calls[problem], best_of(table[problem])
        own += calls * row.time
        best += calls * (fastest.time or row.time)
        if row.sol is None or row.sol_fraction is None:
            bounded = False
        else:
            sol += calls * row.sol.time
    if missing:
        return None, None, _why_missing(missing, len(wanted))
    return best / own, sol / own if bounded else None, ""


def _pick(application: str, candidates: Mapping[str, Row], platform: Platform) -> Row | None:
    mine = [r for r in candidates.values() if platform.takes(r)]
    if application == CHOSEN:
        chosen = [r for r in mine if r.chosen]
        pool = chosen or mine
    else:
        pool = [r for r in mine if r.record.backend == application]
    return min(pool, key=lambda r: r.time or 0.0, default=None)


def _why_missing(missing: Sequence[Problem], wanted: int) -> str:
    if len(missing) == wanted:
        return "ran nothing correctly there"
    ops = sorted({f"{p.op} {p.dtype}" for p in missing})
    listed = ", ".join(ops[:3]) + (" ..." if len(ops) > 3 else "")
    return f"no correct result for {len(missing)} of {wanted} problems ({listed})"
