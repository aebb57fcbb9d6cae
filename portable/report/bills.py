"""What a workload costs on every device of a report, measured and projected apart.

    cost of a unit = time × devices × price per hour;  per million tokens: over the unit's tokens
    energy of a unit = time × devices × power: an upper bound

Where the measured problems are not the whole workload, or stand for larger ones, a measured cost is
a lower bound and says so; a projected one is as good as its projection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from portable.report.model import Report
from portable.report.prices import Bill, bill
from portable.report.ranking import Total
from portable.report.weights import Weights
from portable.text import share

MEASURED, ALL = "the measured part", "all of it"

WHOLE = 0.995
"""Share of a workload's time from which on it counts as measured as a whole."""


@dataclass(frozen=True, slots=True)
class Line:
    """One workload on one device.

    Attributes:
        workload, device: names.
        part: "the measured part" of the workload, or "all of it".
        measured: whether it was; otherwise projected.
        runs_on: backend, or whose choice.
        devices: how many work on one unit together.
        time: [s] per unit.
        bill: cost and energy.
        least: what is not in the cost; "" when it is the whole workload.
    """

    workload: str
    part: str
    device: str
    measured: bool
    runs_on: str
    devices: int
    time: float
    bill: Bill
    least: str

    @property
    def mark(self) -> str:
        """Before a cost: "≈ " projected, "≥ " of a part of the workload, "" otherwise."""
        return "≈ " if not self.measured else "≥ " if self.least else ""


def lines(report: Report) -> list[Line]:
    """Every workload on every device, measured ones first; [] without prices."""
    return [*_measured(report), *_projected(report)] if report.prices else []


def _measured(report: Report) -> Iterator[Line]:
    for ranking in report.rankings:
        place, weights = ranking.place, ranking.weights
        for total in _worth(ranking.totals):
            time = total.with_fallback
            yield Line(
                weights.name, _part(weights), place.label, True,
                WORDS.get(total.candidate, total.candidate), weights.devices, time,
                bill(time, weights, report.prices, place.label, place.spec),
                _least(weights, len(ranking.unmeasured)),
            )  # fmt: skip


def _worth(totals: list[Total]) -> list[Total]:
    """The choice, the best possible, and the best candidate alone."""
    singles = [t for t in totals if t.candidate not in WORDS]
    return [t for t in totals if t.candidate in WORDS] + singles[:1]


WORDS = {"chosen": "chosen by the selector", "best": "the best of each"}


def _projected(report: Report) -> Iterator[Line]:
    for part in report.workloads:
        for device in report.projected:
            sums = [(_part(part), part, device.totals[part.name])]
            if part.name in device.whole:
                sums.append((ALL, *device.whole[part.name]))
            for name, weights, (_, time, missing) in sums:
                if time is not None:
                    yield Line(
                        part.name, name, device.spec.name, False, "projected", weights.devices,
                        time,
                        bill(time, weights, report.prices, device.spec.name, device.spec),
                        _least(weights, missing),
                    )  # fmt: skip


def _part(weights: Weights) -> str:
    return ALL if weights.covered >= WHOLE else MEASURED


def _least(weights: Weights, missing: int) -> str:
    reasons = []
    if weights.covered < WHOLE:
        reasons.append(f"{share(weights.covered)} of the workload's roofline time is here")
    if missing:
        reasons.append(f"{missing} problems without a time")
    if weights.scaled > 0:
        reasons.append(f"{share(weights.scaled)} scaled down to a small CPU")
    return "; ".join(reasons)


def unused(report: Report) -> list[str]:
    """Devices of the price table that this report does not have."""
    here = {p.label for p in report.places} | {p.hardware for p in report.places}
    here |= {p.spec.key for p in report.projected} | {p.spec.name for p in report.projected}
    return [p.device for p in report.prices if not {p.device, p.hardware} & (here - {""})]
