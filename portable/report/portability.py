"""Performance portability of every backend over the declared platforms, per op and as a whole.

Efficiency of an application on a platform, for a workload:
    application efficiency   = sum(w T_best) / sum(w T),  T_best: best known on that device
    architectural efficiency = sum(w T_SOL) / sum(w T)
over all problems somebody ran correctly on that device, by whichever route. One problem that the
application does not run correctly there makes the platform unsupported, and PP zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from portable import roofline
from portable.op import Problem
from portable.report.places import UNTRIED
from portable.report.platforms import Platform, formed
from portable.report.ranking import Table, best_of, table_of
from portable.report.rows import Row, identity
from portable.report.weights import Weights
from portable.roofline import Portability

CHOSEN = "portable"
"""The application that runs each problem where the selector sends it (or, without choices, on the
best candidate)."""


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
        members: H.
        weights: name of the workload.
        results: whole workload first, then by op.
        formed_by: "route" or "device", or "names" when H was declared by names.
        aside: whether it is a second look at what another study shows.
    """

    members: tuple[Platform, ...]
    weights: str
    results: tuple[Result, ...]
    formed_by: str = "names"
    aside: bool = False

    @property
    def platforms(self) -> tuple[str, ...]:
        """Names of H."""
        return tuple(p.name for p in self.members)

    def reasons(self, result: Result) -> list[str]:
        """Why PP is zero: "P2, P3: it reaches ...", platforms by their number in H."""
        found: dict[str, list[str]] = {}
        for number, name in enumerate(self.platforms, 1):
            if name in result.why:
                found.setdefault(result.why[name], []).append(f"P{number}")
        return [f"{', '.join(numbers)}: {why}" for why, numbers in found.items()]


@dataclass(frozen=True, slots=True)
class _Facts:
    """What efficiencies are computed from: correct rows by device, and all rows that stand."""

    tables: Mapping[str, Table]
    tried: Mapping[tuple[int, str], list[Row]]
    weights: Weights
    routes: Sequence[Platform]


def study(
    rows: Sequence[Row],
    platforms: Sequence[Platform],
    weights: Weights,
    formed_by: str = "names",
    *,
    aside: bool = False,
) -> Study:
    """PP of every backend and of the selector's choice over H.

    Problems of the workload that nobody ran on any platform are left out; those that only some
    platforms saw count there.
    """
    tried: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        if row.headline:
            tried.setdefault((id(row.place), row.record.backend), []).append(row)
    places = list({id(p.place): p.place for p in platforms}.values())
    tables = {p.name: table_of(rows, p.place) for p in platforms}
    facts = _Facts(tables, tried, weights, formed(rows, places, "route"))
    applications = sorted({backend for _, backend in tried})
    ops = sorted({p.op for t in tables.values() for p in t if p in weights.calls})
    results = [
        _result(application, scope, platforms, facts)
        for scope in ["", *ops]
        for application in [CHOSEN, *applications]
    ]
    return Study(tuple(platforms), weights.name, tuple(results), formed_by, aside)


def _result(application: str, scope: str, platforms: Sequence[Platform], facts: _Facts) -> Result:
    app: dict[str, float | None] = {}
    arch: dict[str, float | None] = {}
    why: dict[str, str] = {}
    for platform in platforms:
        app[platform.name], arch[platform.name], why[platform.name] = _efficiencies(
            application, scope, platform, facts
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
    application: str, scope: str, platform: Platform, facts: _Facts
) -> tuple[float | None, float | None, str]:
    table, calls_of = facts.tables[platform.name], facts.weights.calls
    own = best = sol = 0.0
    bounded = True
    wanted = [p for p in table if p in calls_of and scope in ("", p.op)]
    if not wanted:
        return None, None, _why_nothing(platform, facts)
    missing = []
    for problem in wanted:
        row = _pick(application, table[problem], platform)
        if row is None or row.time is None:
            missing.append(problem)
            continue
        calls, fastest = calls_of[problem], best_of(table[problem])
        own += calls * row.time
        best += calls * (fastest.time or row.time)
        if row.sol is None or row.sol_fraction is None:
            bounded = False
        else:
            sol += calls * row.sol.time
    if missing:
        return None, None, _why_missing(application, platform, missing, len(wanted), facts)
    return best / own, sol / own if bounded else None, ""


def _pick(application: str, candidates: Mapping[str, Row], platform: Platform) -> Row | None:
    mine = [r for r in candidates.values() if platform.takes(r)]
    if application == CHOSEN:
        chosen = [r for r in mine if r.chosen]
        pool = chosen or mine
    else:
        pool = [r for r in mine if r.record.backend == application]
    return min(pool, key=lambda r: r.time or 0.0, default=None)


# --- why a platform is not supported -----------------------------------------------------------


def _why_nothing(platform: Platform, facts: _Facts) -> str:
    if platform.measured:
        return "nothing of this was measured there"
    known = ", ".join(sorted({p.name for p in facts.routes if p.measured}))
    return "there is no record of it" + (f" (there are of {known})" if known else "")


def _why_missing(
    application: str,
    platform: Platform,
    missing: Sequence[Problem],
    wanted: int,
    facts: _Facts,
) -> str:
    if len(missing) < wanted:
        ops = sorted({f"{p.op} {p.dtype}" for p in missing})
        listed = ", ".join(ops[:3]) + (" ..." if len(ops) > 3 else "")
        said = _said(application, platform, set(missing), facts)
        reason = f": {said}" if said else ""
        return f"no correct result for {len(missing)} of {wanted} problems ({listed}){reason}"
    rows = facts.tried.get((id(platform.place), application), [])
    ways = [p.route for p in facts.routes if p.route and any(r.ok and p.takes(r) for r in rows)]
    here = [r for r in rows if platform.takes(r)]
    if not here and ways:
        return f"it reaches this device by {' and '.join(ways)} only"
    return _said(application, platform, set(missing), facts) or "ran nothing correctly there"


def _said(
    application: str, platform: Platform, problems: Collection[Problem], facts: _Facts
) -> str:
    """What its records say: the most frequent reason, and how many others there are."""
    rows = facts.tried.get((id(platform.place), application), [])
    found = Counter(
        f"{row.status}: {row.reason}"[:160]
        for row in rows
        if not row.ok and row.reason and identity(row.problem) in problems
        and (platform.takes(row) or row.status in UNTRIED)
    )  # fmt: skip
    if not found:
        return ""
    (first, _), others = found.most_common(1)[0], len(found) - 1
    return first + (f" (and {others} more reasons)" if others else "")
