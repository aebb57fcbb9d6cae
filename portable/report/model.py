"""A report: all facts and what follows from them, without any view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portable import registry
from portable.op import Problem
from portable.port_cost import PortCost
from portable.records import Record
from portable.records.record import utc_now
from portable.report import platforms as forming
from portable.report import portability, projection, ranking
from portable.report import weights as weighting
from portable.report.baseline import TOLERANCE, Change, compare
from portable.report.places import UNTRIED, Place
from portable.report.platforms import Platform
from portable.report.prices import Price
from portable.report.projection import Projected
from portable.report.ranking import Ranking
from portable.report.rows import Row, build_rows, identity
from portable.report.weights import Weights

Choices = Mapping[Problem, str]


@dataclass(slots=True)
class Report:
    """What every view shows.

    Attributes:
        title: of the page.
        created: UTC, ISO 8601.
        rows, places: the facts and the measured devices.
        platforms: the measured devices, each by every route.
        workloads: what the sums are weighted with: the measured part of each workload, or all of
            it where nothing was measured; one that counts every problem once where none was given.
        weighted: whether a workload was given.
        rankings: one per workload and device.
        studies: performance portability, one per workload and declared H.
        projected: devices without records.
        changes: against a baseline; None when none was given.
        prices: as given.
        crosscompile: what was compiled for targets that are not here, as given.
        port_cost: what the ports cost in lines of code, as given.
        absent_ops: ops of this installation that no row has.
        sources: where the records are from.
        notes: what went wrong while reading.
    """

    title: str
    created: str
    rows: list[Row]
    places: list[Place]
    workloads: list[Weights]
    weighted: bool
    platforms: list[Platform] = field(default_factory=list)
    rankings: list[Ranking] = field(default_factory=list)
    studies: list[portability.Study] = field(default_factory=list)
    projected: list[Projected] = field(default_factory=list)
    changes: list[Change] | None = None
    prices: list[Price] = field(default_factory=list)
    crosscompile: Any = None
    port_cost: PortCost | None = None
    absent_ops: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def headlines(self) -> list[Row]:
        """One row per problem, device and candidate."""
        return [row for row in self.rows if row.headline]

    @property
    def violations(self) -> list[Row]:
        """Rows below the speed of light: a number behind the bound is wrong."""
        return [row for row in self.rows if row.status == "bound_violated"]

    @property
    def regressions(self) -> list[Change]:
        """Changes for the worse against the baseline."""
        return [change for change in self.changes or () if change.regression]


def build(
    records: Iterable[Record],
    *,
    workloads: Sequence[Weights] | Weights = (),
    chosen: Choices | None = None,
    hardware: Sequence[str] = (),
    platforms: Sequence[str] | None = None,
    platform_by: str = "route",
    prices: Sequence[Price] = (),
    baseline: Iterable[Record] | None = None,
    tolerance: float = TOLERANCE,
    crosscompile: Any = None,
    port_cost: PortCost | None = None,
    title: str = "Porting gaps and speed of light",
    sources: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Report:
    """A report from records.

    Args:
        records: of one or several machines.
        workloads: weights of problems; without any, every measured problem counts once.
        chosen: name of the candidate that the selector chose, by problem.
        hardware: entries of the hardware database to project onto.
        platforms: H of performance portability, see `platforms.declared`; default: what was
            measured, formed by `platform_by`. One that has no records counts as not supported.
        platform_by: "route": every device by each of its routes is a platform; "device": every
            device is.
        prices: see `prices.load`.
        baseline: older records to compare with.
        tolerance: relative slow-down that is never a regression.
        crosscompile: data of `portable.crosscompile`, shown as a table.
        port_cost: what the ports cost, see `portable.port_cost.counted`.
        title: of the page.
        sources: names of the record files.
        notes: shown under "method".

    Raises:
        UnknownNameError: unknown hardware, or way to form platforms.
    """
    rows, places = build_rows(records, chosen)
    given = [workloads] if isinstance(workloads, Weights) else list(workloads)
    whole = given or [weighting.even(rows)]
    measured = {identity(row.problem) for row in rows if row.status not in UNTRIED}
    used = [part if (part := w.only(measured)).calls else w for w in whole]
    report = Report(
        title, utc_now(), rows, places, used, bool(given), prices=list(prices),
        crosscompile=crosscompile, port_cost=port_cost, sources=tuple(sources),
        notes=tuple(notes), platforms=forming.formed(rows, places, "route"),
    )  # fmt: skip
    for weights in used:
        found = (ranking.rank(rows, place, weights) for place in places)
        report.rankings += [r for r in found if r is not None]
    report.studies = list(_studies(report, platforms, platform_by))
    report.projected = projection.project(hardware, rows, places, used, whole)
    if baseline is not None:
        report.changes = compare(build_rows(baseline)[0], rows, tolerance)
    seen = {row.problem.op for row in rows}
    report.absent_ops = tuple(op for op in registry.op_names() if op not in seen)
    return report


def _studies(report: Report, names: Sequence[str] | None, by: str) -> Iterable[portability.Study]:
    rows, places = report.rows, report.places
    if not rows:
        return
    if names is not None:
        looks = [("names", forming.declared(rows, places, names))]
    else:
        other = next(way for way in forming.FORMED_BY if way != by)
        looks = [(way, forming.formed(rows, places, way)) for way in (by, other)]
    (_, first), *_ = looks
    for weights in report.workloads:
        for index, (way, members) in enumerate(looks):
            if not index or 1 < len(members) != len(first):
                yield portability.study(rows, members, weights, way, aside=index > 0)
