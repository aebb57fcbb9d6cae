"""Plans and runs the trials of a backend: its contract, every case of its ops, the probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from portable import cases, registry
from portable.backend import API_VERSION, Backend
from portable.conformance import clocks
from portable.conformance.contract import Contract
from portable.conformance.probes import PROBES, Probe
from portable.conformance.result import FAILED, LEVELS, PASSED, REFUSED, Outcome, Result
from portable.conformance.subject import Subject
from portable.conformance.trial import Trial
from portable.errors import UnknownNameError

Progress = Callable[[int, int, str], None]


class Runnable(Protocol):
    """A contract, a trial or a probe."""

    @property
    def name(self) -> str:
        """What is run."""
        ...

    def run(self) -> Outcome:
        """Runs it."""
        ...


def conform(
    backend: str,
    *,
    ops: Sequence[str] | None = None,
    level: str = "core",
    devices: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
    fail_fast: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Run cases and probes up to a level on a backend, with every runtime it has.

    Args:
        backend: name of the backend, or of one runtime ("opencl[intel]").
        ops: names of ops; None: all that it has.
        level: "core", "full" or "hostile".
        devices: ids of devices; None: all that it drives.
        dtypes: dtypes of the first operand; None: all.
        fail_fast: stop at the first failure.
        progress: called with (done, in all, what is next).

    Raises:
        UnknownNameError, BackendMissingError, PluginError: as for `using(backend=...)`.
    """
    trials = plan(backend, ops=ops, level=level, devices=devices, dtypes=dtypes)
    result = Result(backend, level, versions=_versions(backend))
    try:
        for index, trial in enumerate(trials):
            if progress is not None:
                progress(index, len(trials), trial.name)
            result.outcomes.append(trial.run())
            if fail_fast and result.failures:
                return result
    finally:
        clocks.restore()
    if ops is None and devices is None and dtypes is None:
        result.outcomes += uncovered(result.outcomes)
    return result


def plan(
    backend: str,
    *,
    ops: Sequence[str] | None = None,
    level: str = "core",
    devices: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
) -> list[Runnable]:
    """Everything that `conform` would run, in order.

    Raises:
        UnknownNameError, BackendMissingError, PluginError: as for `conform`.
    """
    if level not in LEVELS:
        raise UnknownNameError("level", level, LEVELS)
    name, _, runtime = backend.partition("[")
    found = registry.backend(name)
    for op in ops or ():
        registry.op(op)
    wanted = LEVELS[: LEVELS.index(level) + 1]
    trials: list[Runnable] = [Contract(found)]
    for subject in subjects(found, runtime.removesuffix("]"), ops, devices):
        trials += _of_subject(subject, wanted, dtypes)
    return trials


def subjects(
    backend: Backend, runtime: str, ops: Sequence[str] | None, devices: Sequence[str] | None
) -> Iterator[Subject]:
    """Every op on every device and runtime that was asked for."""
    known = set(registry.op_names())
    for device in backend.devices():
        if (runtime and device.runtime != runtime) or (devices and device.id not in devices):
            continue
        for name in ops or [o for o in backend.ops() if o in known]:
            implementation = backend.implementation(name)
            if implementation is not None:
                yield Subject(backend, implementation, device, registry.op(name))


def _of_subject(
    subject: Subject, wanted: Sequence[str], only: Sequence[str] | None
) -> Iterator[Runnable]:
    tested: dict[str, None] = {}
    for case in subject.op.cases():
        for dtype in cases.dtypes_of(subject.op, case):
            if only is None or dtype in only:
                if case.level == "core":
                    tested[dtype] = None
                if case.level in wanted:
                    yield Trial(subject, case, dtype)
    for check, kind in PROBES.items():
        if kind.level in wanted:
            for dtype in tested if kind.every_dtype else _usual(list(tested)):
                yield Probe(subject, check, kind.level, dtype)


def _usual(dtypes: list[str]) -> list[str]:
    """float32 where it is tested, else the first."""
    return ["float32"] if "float32" in dtypes else dtypes[:1]


def uncovered(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """A failure per candidate and op of which everything was refused."""
    ran = {(o.candidate, o.op) for o in outcomes if o.status != REFUSED}
    refused: dict[tuple[str, str], dict[str, None]] = {}
    for o in outcomes:
        if (o.candidate, o.op) not in ran:
            refused.setdefault((o.candidate, o.op), {}).update(dict.fromkeys(o.reasons))
    return [
        Outcome(
            op, "coverage", "-", candidate, FAILED, "coverage",
            (f"every case of a listed op is refused: {'; '.join(list(reasons)[:3])}",),
        )
        for (candidate, op), reasons in refused.items()
    ]  # fmt: skip


def _versions(backend: str) -> dict[str, str]:
    import portable

    own = registry.backend(backend.partition("[")[0]).versions()
    return {"portable": portable.__version__, "api": str(API_VERSION), **own}


__all__ = ["LEVELS", "PASSED", "conform", "plan", "uncovered"]
