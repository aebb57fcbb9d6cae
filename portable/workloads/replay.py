"""Replay: run a workload's problems as an app would call them, and add up what they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portable.op import Problem
from portable.workloads.selection import Selection, Weighted, select
from portable.workloads.workload import Workload

if TYPE_CHECKING:
    from portable.roofline import SpeedOfLight

Progress = Callable[[int, int, str], Any]


@dataclass(frozen=True, slots=True)
class Replayed:
    """One problem, as called.

    Attributes:
        entry: the problem with its weight and share.
        time: median of a call [s], with the choice that `portable` makes for it.
        spread: relative noise of the time.
        chosen: the candidate that ran it.
        sol: speed of light here; None when the device is not in the hardware database.
    """

    entry: Weighted
    time: float
    spread: float
    chosen: str
    sol: SpeedOfLight | None


@dataclass(frozen=True, slots=True)
class Replay:
    """A workload, replayed.

    Attributes:
        selection: what was replayed, and what was left.
        rows: one per problem, in the selection's order.
    """

    selection: Selection
    rows: tuple[Replayed, ...]

    @property
    def time(self) -> float:
        """Sum of weight times median [s]: what one unit of the workload's replayed part takes."""
        return sum(row.entry.weight * row.time for row in self.rows)

    @property
    def sol_time(self) -> float | None:
        """The same sum at the speed of light [s]; None when it is not known for a problem."""
        total = 0.0
        for row in self.rows:
            if row.sol is None:
                return None
            total += row.entry.weight * row.sol.time
        return total


def replay(
    workload: Workload,
    *,
    scale: str = "cpu",
    share: float = 0.9,
    limit: int | None = 24,
    budget: float = 0.2,
    ops: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Replay:
    """Call the weightiest problems on NumPy arrays, warm, with whatever `portable` chooses.

    Args:
        workload: as loaded.
        scale, share, limit, ops: as in `select`.
        budget: [s] of timing per problem.
        progress: called with (done, total, what).
    """
    selection = select(workload, share=share, limit=limit, scale=scale, ops=ops)
    rows = []
    for done, entry in enumerate(selection.problems):
        if progress is not None:
            progress(done, len(selection.problems), entry.note or entry.problem.op)
        rows.append(_replayed(entry, budget))
    return Replay(selection, tuple(rows))


def _replayed(entry: Weighted, budget: float) -> Replayed:
    from portable import explaining, machine, registry
    from portable.errors import PortableError
    from portable.measure import measure

    samples = measure({"call": caller(entry.problem)}, budget=budget, max_samples=31)["call"]
    if samples.status != "ok":
        raise PortableError(f"{entry.problem} cannot be replayed: {samples.reason}")
    choice = explaining.of_problem(entry.problem, "cpu").choice
    sol = machine.device("cpu").speed_of_light(registry.op(entry.problem.op).cost(entry.problem))
    return Replayed(entry, samples.time, samples.spread, choice.name if choice else "-", sol)


def caller(problem: Problem) -> Callable[[], Any]:
    """A call of the problem's op on fresh NumPy arrays of its shapes, dtypes and strides."""
    from portable import cases, engine, registry

    op = registry.op(problem.op)
    present = dict(zip(problem.operands, cases.problem_arrays(problem), strict=True))
    arrays = tuple(present.get(name) for name in op.operand_names)
    params = tuple(problem.param(name) for name in op.params)
    return lambda: engine.call(op, arrays, params)
