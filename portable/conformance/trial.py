"""One case on one subject: values first, then everything that values do not show."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable import cases, check
from portable.backend import Kernel
from portable.conformance import clocks, memory
from portable.conformance.result import FAILED, PASSED, REFUSED, Outcome
from portable.conformance.subject import Failed, Results, Subject, same
from portable.op import Case, Problem

PATIENCE = 0.25
"""Seconds given to a wrong result to show that it was only unfinished."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One case in one dtype."""

    subject: Subject
    case: Case
    dtype: str

    @property
    def name(self) -> str:
        """For progress and reports."""
        return self.case.name

    @property
    def level(self) -> str:
        """Level of the case."""
        return self.case.level

    def run(self) -> Outcome:
        """Refused, passed, or failed with the first check that did not hold."""
        return outcome(self, self._run)

    def _run(self) -> list[str]:
        subject = self.subject
        values = self._values(0)
        held = [memory.guarded(a) for a in values]
        native = [subject.native(g.array) for g in held]
        problem = subject.posed(cases.problem_of(subject.op, values, self.case), native)
        if reasons := subject.why_not(problem):
            return reasons
        kernel = subject.compile(problem)
        memory.poison_heap([spec.nbytes for spec in problem.results])
        first = subject.run_native(kernel, native)
        if wrong := check.check(subject.op, problem, values, tuple(first.now)):
            raise self._diagnosed(problem, kernel, values, first, wrong)
        _inputs_intact(held)
        _owned(first, held)
        self._again(problem, kernel, native, values, first)
        _inputs_intact(held)
        self._new_data(problem, kernel, native, held, first)
        if first.changed():
            raise Failed("reuse", "an earlier result was changed by a later call")
        clocks.verify()
        return []

    def _values(self, seed: int) -> list[Any]:
        return cases.arrays(self.subject.op, self.case, self.dtype, seed=seed)

    def _diagnosed(
        self, problem: Problem, kernel: Kernel, values: list[Any], first: Results, wrong: list[str]
    ) -> Failed:
        """Why values are wrong: not there yet, never written, or just wrong."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if first.changed():
                return Failed("late", "the result changed after the call had returned")
            time.sleep(0.01)
        with memory.watched():
            again = self.subject.run(kernel, values)
        poisoned = [y for y in again.now if memory.looks_poisoned(y)]
        expected = self.subject.op.reference(problem, values)
        if poisoned and not any(np.isnan(np.asarray(e, np.float64)).any() for e in expected):
            return Failed("unwritten", "elements of the result are never written", *wrong)
        return Failed("bound", *wrong)

    def _again(
        self,
        problem: Problem,
        kernel: Kernel,
        native: Sequence[Any],
        values: Sequence[Any],
        first: Results,
    ) -> None:
        """The same call in watched memory: the same bits, nothing outside, nothing unwritten."""
        with memory.watched() as allocations:
            again = self.subject.run_native(kernel, native)
        if any(a.trespassed() for a in allocations):
            raise Failed("outside", "bytes before or after an array of the kernel were written")
        if same(first.now, again.now):
            return
        if wrong := check.check(self.subject.op, problem, values, tuple(again.now)):
            poisoned = any(memory.looks_poisoned(y) for y in again.now)
            raise Failed("unwritten" if poisoned else "determinism", *wrong)
        if self.subject.deterministic:
            raise Failed(
                "determinism", "the same input gave other bits; declare DETERMINISTIC = False"
            )

    def _new_data(
        self,
        problem: Problem,
        kernel: Kernel,
        native: Sequence[Any],
        held: Sequence[memory.Guarded],
        first: Results,
    ) -> None:
        """Other values, first in other arrays, then in the same memory."""
        other = self._values(1)
        fresh = self.subject.run(kernel, [memory.guarded(a).array for a in other])
        if wrong := check.check(self.subject.op, problem, other, tuple(fresh.now)):
            raise Failed("stale", *(f"other arrays through the same kernel: {w}" for w in wrong))
        for place, values in zip(held, other, strict=True):
            place.refill(values)
        if self.subject.family.name != "numpy":
            native = [self.subject.native(g.array) for g in held]
        changed = self.subject.run_native(kernel, native)
        if self.subject.deterministic and same(changed.now, fresh.now):
            return
        if wrong := check.check(self.subject.op, problem, other, tuple(changed.now)):
            raise Failed("stale", *(f"new values in the same arrays: {w}" for w in wrong))


def _inputs_intact(held: Sequence[memory.Guarded]) -> None:
    for position, place in enumerate(held):
        if place.changed():
            raise Failed("inputs", f"operand {position} was changed")
        if place.trespassed():
            raise Failed("inputs", f"memory around operand {position} was written")


def _owned(results: Results, held: Sequence[memory.Guarded]) -> None:
    for view in results.views:
        if any(np.may_share_memory(view, place.buffer) for place in held):
            raise Failed("aliasing", "the result shares memory with an input")


def outcome(trial: Any, run: Any) -> Outcome:
    """Runs a trial or probe; `run` gives reasons of refusal, or raises Failed."""
    status, failed = PASSED, ""
    reasons: tuple[str, ...] = ()
    try:
        refused = run()
        if refused:
            status, reasons = REFUSED, tuple(refused)
    except Failed as failure:
        status, failed, reasons = FAILED, failure.check, failure.reasons
    except Exception as error:
        status, failed = FAILED, "exception"
        reasons = (f"{type(error).__name__}: {error}",)
    subject = trial.subject
    return Outcome(
        subject.op.name, trial.name, trial.dtype, subject.candidate, status, failed,
        tuple(reasons), trial.level,
    )  # fmt: skip
