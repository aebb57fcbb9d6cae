"""How often a workload calls each problem: what turns times into "where the time goes"."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from portable.op import Problem
from portable.report.rows import Row, identity

if TYPE_CHECKING:
    from portable.workloads import Selection, Workload


@dataclass(frozen=True, slots=True)
class Weights:
    """Calls of each problem per unit of a workload.

    Attributes:
        name: of the workload.
        calls: by problem, see `rows.identity`.
        notes: which layer a problem is.
        unit: what one unit of the weights is ("prefill of 512 tokens"); "" when not told.
        tokens: tokens per unit; 0 when the workload has none. For cost per token.
        devices: devices that work on one unit together; times are those of one of them.
        covered: share of the workload's roofline time the problems stand for.
        scaled: the part of `covered` whose problems were scaled down for a small CPU.
        shares: what each problem adds to (`covered`, `scaled`); {} when not told.
        unmapped: ops that `portable` does not have, with their share of that time.
    """

    name: str
    calls: Mapping[Problem, float]
    notes: Mapping[Problem, str] = field(default_factory=dict)
    unit: str = ""
    tokens: float = 0.0
    covered: float = 1.0
    unmapped: Mapping[str, float] = field(default_factory=dict)
    scaled: float = 0.0
    devices: int = 1
    shares: Mapping[Problem, tuple[float, float]] = field(default_factory=dict)

    @property
    def per(self) -> str:
        """What times and costs are for: "per image", or "in the captured run"."""
        before, per, what = self.unit.partition("per ")
        if per and before.split()[-1:] in (["calls"], ["1"]):
            return f"per {what}"
        if self.unit.startswith("calls "):
            return self.unit.removeprefix("calls ")
        return f"per {self.unit}" if self.unit else "per unit of the workload"

    def of(self, problem: Problem) -> float:
        """Calls of a problem; 0 when the workload does not have it."""
        return self.calls.get(identity(problem), 0.0)

    def only(self, problems: Collection[Problem]) -> Weights:
        """The part of the workload that consists of these problems."""
        parts = [self.shares[p] for p in self.calls if p in problems and p in self.shares]
        return replace(
            self,
            calls={p: n for p, n in self.calls.items() if p in problems},
            covered=sum(p[0] for p in parts) if self.shares else self.covered,
            scaled=sum(p[1] for p in parts) if self.shares else self.scaled,
        )


def from_mapping(name: str, entries: Mapping[Problem, tuple[float, str]], **more: Any) -> Weights:
    """Weights from {problem: (calls, note)}; equal problems add up."""
    return from_entries(name, ((p, w, n) for p, (w, n) in entries.items()), **more)


def from_entries(name: str, entries: Iterable[tuple[Problem, float, str]], **more: Any) -> Weights:
    """Weights from (problem, calls, note); equal problems add up.

    Raises:
        ValueError: a number of calls is not above zero.
    """
    calls: dict[Problem, float] = {}
    notes: dict[Problem, str] = {}
    for problem, weight, note in entries:
        if not weight > 0:
            raise ValueError(f"{problem} has weight {weight!r} (a number of calls > 0 is needed)")
        key = identity(problem)
        calls[key] = calls.get(key, 0.0) + weight
        if note and note not in notes.get(key, ""):
            notes[key] = f"{notes[key]}, {note}" if key in notes else note
    return Weights(name, calls, notes, **more)


def from_selection(workload: Workload, selection: Selection) -> Weights:
    """Weights of the selected problems of a workload; what it never calls is left out."""
    shares: dict[Problem, tuple[float, float]] = {}
    for w in selection.problems:
        before = shares.get(key := identity(w.problem), (0.0, 0.0))
        shares[key] = (before[0] + w.share, before[1] + w.scaled)
    entries = ((w.problem, w.weight, w.note) for w in selection.problems if w.weight > 0)
    return from_entries(
        workload.name, entries, unit=workload.weight_unit, covered=selection.share,
        unmapped=dict(selection.unmapped), tokens=workload.tokens, scaled=selection.scaled,
        devices=workload.devices, shares=shares,
    )  # fmt: skip


def even(rows: Sequence[Row]) -> Weights:
    """Every measured problem once: what stands in where no workload is given."""
    return Weights("every measured problem once", {identity(r.problem): 1.0 for r in rows})
