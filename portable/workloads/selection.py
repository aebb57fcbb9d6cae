"""Problems of a workload: bound, deduplicated, and the weightiest of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from portable import registry
from portable.errors import ArgumentError, UnknownNameError
from portable.op import Problem
from portable.workloads.workload import Entry, Workload

SCALES = ("full", "cpu")


@dataclass(frozen=True, slots=True)
class Weighted:
    """A problem with what it counts for.

    Attributes:
        problem: what is computed.
        weight: calls per unit of the workload, over all entries that are this problem.
        share: share of the workload's time (see `Entry.share`).
        note: which layers or calls it is.
        approx: what differs from the original call; "" when nothing does.
        scaled: the part of `share` that stands for larger problems, scaled down for a small CPU.
    """

    problem: Problem
    weight: float
    share: float
    note: str = ""
    approx: str = ""
    scaled: float = 0.0


@dataclass(frozen=True, slots=True)
class Selection:
    """The weightiest problems of a workload.

    Attributes:
        problems: by share, the largest first.
        share: share of the workload's time that they stand for.
        unmapped: share of what has no op of ours, by the source's name for it.
        left: share of problems that have an op but were not selected.
        scaled: the part of `share` whose problems were scaled down.
    """

    problems: tuple[Weighted, ...]
    share: float
    unmapped: dict[str, float] = field(default_factory=dict)
    left: float = 0.0
    scaled: float = 0.0


def problems(workload: Workload, scale: str = "cpu") -> list[Weighted]:
    """All problems of the workload whose op we have, deduplicated, the largest share first.

    Args:
        workload: as loaded.
        scale: "full", or "cpu": what does not fit a small CPU is scaled down, with the same weight
            and share.

    Raises:
        ArgumentError: an entry does not fit its op.
        UnknownNameError: the scale is neither.
    """
    if scale not in SCALES:
        raise UnknownNameError("scale", scale, SCALES)
    known = set(registry.op_names())
    merged: dict[Problem, Weighted] = {}
    for entry in workload.entries:
        if entry.op not in known:
            continue
        problem = bind(entry, scale)
        now = merged.get(problem, Weighted(problem, 0.0, 0.0, entry.note, entry.approx))
        note = now.note if entry.note in now.note.split("; ") else f"{now.note}; {entry.note}"
        scaled = entry.share if scale == "cpu" and entry.cpu is not None else 0.0
        merged[problem] = Weighted(
            problem, now.weight + entry.weight, now.share + entry.share, note, now.approx,
            now.scaled + scaled,
        )  # fmt: skip
    return sorted(merged.values(), key=lambda w: -w.share)


def bind(entry: Entry, scale: str = "full") -> Problem:
    """The problem of an entry.

    Raises:
        ArgumentError: shapes, dtypes or parameters that the op does not take.
    """
    operands, params = entry.operands, entry.params
    if scale == "cpu" and entry.cpu is not None:
        operands, params = entry.cpu
    op = registry.op(entry.op)
    try:
        return op.bind(operands, {**op.params, **{k: _tuples(v) for k, v in params.items()}})
    except ArgumentError as error:
        error.add_note(f"in the workload entry {entry.note!r} of {entry.op}")
        raise


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def unmapped(workload: Workload) -> dict[str, float]:
    """Share of what has no op of ours, by the source's name for it, the largest first."""
    known = set(registry.op_names())
    found: dict[str, float] = {}
    for entry in workload.unmapped:
        found[entry.what] = found.get(entry.what, 0.0) + entry.share
    for mapped in workload.entries:
        if mapped.op not in known:
            found[mapped.op] = found.get(mapped.op, 0.0) + mapped.share
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def select(
    workload: Workload,
    *,
    share: float = 0.9,
    limit: int | None = None,
    scale: str = "cpu",
    ops: Sequence[str] | None = None,
) -> Selection:
    """The fewest problems that stand for `share` of what the workload's known ops need.

    Args:
        workload: as loaded.
        share: of the time of the problems that have an op (and are of `ops`), in (0, 1].
        limit: problems at the most.
        scale: "cpu" or "full".
        ops: only problems of these ops.

    Raises:
        ValueError: share is not in (0, 1], or limit is below 1.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share is {share} (above 0, at most 1)")
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit} (at least 1)")
    found = [w for w in problems(workload, scale) if ops is None or w.problem.op in ops]
    total, covered = sum(w.share for w in found), 0.0
    chosen: list[Weighted] = []
    for weighted in found:
        if covered >= share * total - 1e-12 or len(chosen) == limit:
            break
        chosen.append(weighted)
        covered += weighted.share
    scaled = sum(w.scaled for w in chosen)
    return Selection(tuple(chosen), covered, unmapped(workload), total - covered, scaled)
