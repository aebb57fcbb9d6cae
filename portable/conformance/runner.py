"""Runs an op's cases on one backend and checks more than values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from portable import cases, check, registry
from portable.backend import Backend, Implementation
from portable.conformance.result import FAILED, PASSED, REFUSED, Outcome, Result
from portable.device import Device
from portable.errors import UnknownNameError
from portable.op import Case, Op, Problem

LEVELS = ("core", "full", "hostile")
Progress = Callable[[int, int, str], None]


def conform(
    backend: str,
    *,
    ops: Sequence[str] | None = None,
    level: str = "core",
    devices: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run the cases up to a level on a backend, with every runtime it has.

    Args:
        backend: name of the backend, or of one runtime ("opencl[intel]").
        ops: names of ops; None: all that it has.
        level: "core", "full" or "hostile".
        devices: ids of devices; None: all that it drives.
        progress: called with (cases done, cases in all, what is next).

    Raises:
        UnknownNameError, BackendMissingError, PluginError: as for `using(backend=...)`.
    """
    if level not in LEVELS:
        raise UnknownNameError("level", level, LEVELS)
    name, _, runtime = backend.partition("[")
    found = registry.backend(name)
    for op in ops or ():
        registry.op(op)
    result = Result(backend, level, versions=dict(found.versions()))
    plan = list(_plan(found, runtime.removesuffix("]"), ops, level, devices))
    for index, trial in enumerate(plan):
        if progress is not None:
            progress(index, len(plan), f"{trial.op.name} {trial.case.name}")
        result.outcomes.append(trial.run())
    return result


def _plan(
    backend: Backend,
    runtime: str,
    ops: Sequence[str] | None,
    level: str,
    devices: Sequence[str] | None,
) -> Iterator[Trial]:
    wanted = LEVELS[: LEVELS.index(level) + 1]
    known = set(registry.op_names())
    for device in backend.devices():
        if (runtime and device.runtime != runtime) or (devices and device.id not in devices):
            continue
        for name in ops or [o for o in backend.ops() if o in known]:
            implementation = backend.implementation(name)
            if implementation is None:
                continue
            op = registry.op(name)
            for case in op.cases():
                if case.level in wanted:
                    for dtype in cases.dtypes_of(op, case):
                        yield Trial(backend, implementation, device, op, case, dtype)


@dataclass(frozen=True, slots=True)
class Trial:
    """One case in one dtype on one device."""

    backend: Backend
    implementation: Implementation
    device: Device
    op: Op
    case: Case
    dtype: str

    def run(self) -> Outcome:
        """Refused, passed, or failed with the first check that did not hold."""
        host = cases.arrays(self.op, self.case, self.dtype, seed=0)
        problem = cases.problem_of(self.op, host, self.case)
        reasons = self.implementation.why_not(problem, self.device)
        if reasons:
            return self._outcome(REFUSED, "", reasons)
        try:
            failed, reasons = self._checks(problem, host)
        except Exception as error:
            failed, reasons = "exception", [f"{type(error).__name__}: {error}"]
        return self._outcome(FAILED if reasons else PASSED, failed, reasons)

    def _outcome(self, status: str, failed: str, reasons: Sequence[str]) -> Outcome:
        name = self.backend.name + (f"[{self.device.runtime}]" if self.device.runtime else "")
        return Outcome(
            self.op.name, self.case.name, self.dtype, name, status, failed, tuple(reasons)
        )

    def _checks(self, problem: Problem, host: list[Any]) -> tuple[str, list[str]]:
        """Values, untouched inputs, determinism, and new data through the same kernel."""
        family = registry.families()[self.backend.families[0]]
        configs = self.implementation.configs(problem, self.device) or [{}]
        kernel = self.implementation.compile(problem, self.device, configs[0])

        def run(given: Sequence[Any]) -> tuple[Any, ...]:
            _poison(problem)
            native = [family.from_host(a, self.device.id) for a in given]
            outcome = kernel(*native)
            results = outcome if isinstance(outcome, tuple) else (outcome,)
            return tuple(_owned(family.to_host(r)) for r in results)

        before = [_bytes(a) for a in host]
        first = run(host)
        if wrong := check.check(self.op, problem, host, first):
            return "bound", wrong
        if [_bytes(a) for a in host] != before:
            return "inputs", ["an input was changed"]
        again = run(host)
        if getattr(self.implementation, "DETERMINISTIC", True) and not _same(first, again):
            return "determinism", ["the same input gave other bits; declare DETERMINISTIC = False"]
        other = cases.arrays(self.op, self.case, self.dtype, seed=1)
        if wrong := check.check(self.op, problem, other, run(other)):
            return "stale", [f"with new data through the same kernel: {w}" for w in wrong]
        return "", []


def _poison(problem: Problem) -> None:
    """Leave NaN bit patterns in memory that the next allocation of the result's size may get."""
    import numpy as np

    for spec in problem.results:
        if 0 < spec.nbytes < 1 << 26:
            held = [np.full(spec.nbytes, 0xFF, np.uint8) for _ in range(4)]
            del held


def _owned(array: Any) -> Any:
    """A copy: a kernel that hands out one buffer again and again must not change what we hold."""
    return array.copy()


def _bytes(array: Any) -> bytes:
    data: bytes = array.tobytes()
    return data


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


__all__ = ["LEVELS", "Trial", "conform"]
