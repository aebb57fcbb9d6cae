"""`with portable.profile() as p:` - what an app called, how long, how far from the speed of light.

The price is two clock reads a call. On an accelerator each call is waited for, so that its time
is its own: kernels of a profiled app do not overlap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from portable import engine, machine, registry
from portable.op import Problem
from portable.settings import Settings, current, fresh, intern, scope
from portable.text import share, table, time_text


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One problem of a profile.

    Attributes:
        problem: what was called.
        candidate: what ran it.
        calls: how often.
        time: total [s].
        sol_time: total speed-of-light time [s], or None when the device has no entry.
        mfu: FLOPs of the contract per second over the dense peak of the busiest unit, or None.
    """

    problem: Problem
    candidate: str
    calls: int
    time: float
    sol_time: float | None
    mfu: float | None

    @property
    def sol_fraction(self) -> float | None:
        """T_SOL over the time taken."""
        return self.sol_time / self.time if self.sol_time is not None and self.time else None


class Profile:
    """Calls seen inside a `with portable.profile()` block."""

    def __init__(self) -> None:
        self._cells: list[tuple[engine.Plan, list[float]]] = []

    def watch(self, plan: engine.Plan) -> Callable[..., Any]:
        """What the engine calls in the plan's stead."""
        cell: list[float] = []
        self._cells.append((plan, cell))
        run, clock, note = plan.run, time.perf_counter, cell.append
        wait = _waiter(plan)

        def timed(*arrays: Any) -> Any:
            start = clock()
            result = run(*arrays)
            if wait is not None:
                wait(result)
            note(clock() - start)
            return result

        return timed

    @property
    def rows(self) -> list[ProfileRow]:
        """One row per problem and candidate, the costliest first."""
        merged: dict[tuple[Problem, str], tuple[engine.Plan, list[float]]] = {}
        for plan, cell in self._cells:
            key = (plan.choice.problem, plan.choice.candidate.name)
            merged.setdefault(key, (plan, []))[1].extend(cell)
        rows = [_row(plan, cell) for plan, cell in merged.values() if cell]
        return sorted(rows, key=lambda r: -r.time)

    @property
    def time(self) -> float:
        """Total time [s] inside our ops."""
        return sum(sum(cell) for _, cell in self._cells)

    def problems(self) -> list[tuple[Problem, int]]:
        """Every problem with its number of calls: a workload."""
        counts: dict[Problem, int] = {}
        for row in self.rows:
            counts[row.problem] = counts.get(row.problem, 0) + row.calls
        return list(counts.items())

    def __str__(self) -> str:
        total = self.time or 1.0
        rows = [
            [
                str(r.problem), r.candidate, str(r.calls), time_text(r.time), share(r.time / total),
                share(r.sol_fraction) if r.sol_fraction is not None else "-",
                share(r.mfu) if r.mfu is not None else "-",
            ]
            for r in self.rows
        ]  # fmt: skip
        head = ["problem", "ran on", "calls", "time", "share", "of SOL", "MFU"]
        return "\n".join(table(head, rows)) if rows else "no call of an op was seen"


def _row(plan: engine.Plan, cell: list[float]) -> ProfileRow:
    problem, candidate = plan.choice.problem, plan.choice.candidate
    cost = registry.op(problem.op).cost(problem)
    sol = machine.device(candidate.device.id).speed_of_light(cost)
    spent = sum(cell)
    mfu = None
    if sol is not None and cost.work and spent:
        mfu = sol.compute_time * len(cell) / spent
    return ProfileRow(
        problem, candidate.name, len(cell), spent, sol.time * len(cell) if sol else None, mfu
    )


def _waiter(plan: engine.Plan) -> Callable[[Any], None] | None:
    """How to wait for a result, or None where a call returns when it is done."""
    device = plan.choice.candidate.device
    backend = registry.backend(plan.choice.candidate.backend)
    ready: Any = getattr(backend, "wait", None)
    if ready is not None:
        return lambda result: ready(result)
    if device.id == "cpu":
        return None
    return lambda _: backend.synchronize(device)


@contextmanager
def profile() -> Iterator[Profile]:
    """Collects every call of an op in this thread and its tasks inside the block.

    Yields:
        The profile; read it after the block.
    """
    seen = Profile()
    settings: Settings = intern(fresh(current.get(), observer=seen))
    try:
        with scope(settings):
            yield seen
    finally:
        engine.drop(settings)
