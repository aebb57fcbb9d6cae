"""Probes: behaviour that one case with ordinary arrays does not show, once per op and dtype."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from portable import cases, check
from portable.backend import Kernel
from portable.conformance import memory
from portable.conformance.result import Outcome
from portable.conformance.subject import Failed, Subject, same
from portable.conformance.trial import outcome
from portable.op import Case, Problem

THREADS, CALLS = 4, 6
MOST_CONFIGS = 12
"""Configs tried per op and dtype."""
SIZES = (32, 1 << 17)
"""Elements of the operands of a probe's case: enough to be cut in blocks, small enough to be quick.
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe of one subject in one dtype."""

    subject: Subject
    check: str
    level: str
    dtype: str

    @property
    def name(self) -> str:
        """For progress and reports."""
        return f"probe: {self.check}"

    def run(self) -> Outcome:
        """Refused where the probe does not apply or the backend takes no such case."""
        return outcome(self, lambda: PROBES[self.check].run(self.subject, self.dtype))


@dataclass(frozen=True, slots=True)
class Setup:
    """A case ready to be probed."""

    subject: Subject
    case: Case
    dtype: str
    problem: Problem
    kernel: Kernel

    def values(self, seed: int = 0) -> list[Any]:
        """The case's arrays."""
        return cases.arrays(self.subject.op, self.case, self.dtype, seed=seed)

    def verify(self, name: str, host: Sequence[Any], results: Sequence[Any]) -> None:
        """Raises Failed(name) unless the results are right."""
        if wrong := check.check(self.subject.op, self.problem, host, tuple(results)):
            raise Failed(name, *wrong)


Wanted = Callable[[Case], bool]


def _plain(case: Case) -> bool:
    shapes = [o.shape for o in case.operands.values()]
    sizes = [int(np.prod(s)) for s in shapes]
    return (
        case.level == "core"
        and all(o.layout == "contiguous" for o in case.operands.values())
        and min(sizes) > 0
        and SIZES[0] <= max(sizes) <= SIZES[1]
    )


def setups(subject: Subject, dtype: str, wanted: Wanted = _plain) -> Iterator[Setup]:
    """Cases that fit and that the implementation takes."""
    for case in subject.op.cases():
        if wanted(case) and dtype in cases.dtypes_of(subject.op, case):
            problem = _posed(subject, case, cases.arrays(subject.op, case, dtype))
            if not subject.why_not(problem):
                yield Setup(subject, case, dtype, problem, subject.compile(problem))


def _posed(subject: Subject, case: Case, host: Sequence[Any]) -> Problem:
    problem = cases.problem_of(subject.op, host, case)
    return subject.posed(problem, [subject.native(a) for a in host])


_NONE = ["no such case of this op that the implementation takes"]


def _on_arrays(
    name: str, make: Callable[[Any], memory.Guarded]
) -> Callable[[Subject, str], list[str]]:
    """A probe that hands over the same values in other memory."""

    def run(subject: Subject, dtype: str) -> list[str]:
        for setup in setups(subject, dtype):
            held = [make(a) for a in setup.values()]
            host = [g.array for g in held]
            results = _run(setup, host, name)
            setup.verify(name, host, results)
            if any(g.changed() or g.trespassed() for g in held):
                raise Failed(name, "an input, or memory around it, was written")
            return []
        return _NONE

    return run


def _run(setup: Setup, host: Sequence[Any], name: str) -> list[Any]:
    try:
        return setup.subject.run(setup.kernel, host).now
    except Failed as failure:
        raise Failed(name, *failure.reasons) from failure


def _misaligned(array: Any) -> memory.Guarded:
    return memory.guarded(array, offset=array.itemsize)


def _readonly(array: Any) -> memory.Guarded:
    return memory.guarded(array, readonly=True)


def _far(subject: Subject, dtype: str) -> list[str]:
    """Every operand with rows, one after the other, stretched over more than 2^31 elements."""

    def has_rows(case: Case) -> bool:
        return _plain(case) and any(_has_rows(o.shape) for o in case.operands.values())

    for setup in setups(subject, dtype, has_rows):
        ran, refused = 0, dict[str, None]()
        for index, array in enumerate(setup.values()):
            if not _has_rows(array.shape):
                continue
            host = setup.values()
            try:
                host[index] = memory.far(array)
            except OSError as error:
                return [f"no address space here: {error}"]
            problem = _posed(subject, setup.case, host)
            if reasons := subject.why_not(problem):
                refused.update(dict.fromkeys(reasons))
                continue
            far = replace(setup, problem=problem, kernel=subject.compile(problem))
            far.verify("far", setup.values(), _run(far, host, "far"))
            ran += 1
        return [] if ran else list(refused)
    return _NONE


def _has_rows(shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and shape[0] > 1


def _aliased(subject: Subject, dtype: str) -> list[str]:
    """Two operands that are one array."""
    for setup in setups(subject, dtype, lambda c: c.level == "core"):
        host = setup.values()
        twin = _twins(host)
        if twin is None:
            continue
        first, second = twin
        host[second] = host[first]
        problem = _posed(subject, setup.case, host)
        again = replace(setup, problem=problem, kernel=subject.compile(problem))
        again.verify("aliasing", [a.copy() for a in host], _run(again, host, "aliasing"))
        return []
    return _NONE


def _twins(host: Sequence[Any]) -> tuple[int, int] | None:
    for i, one in enumerate(host):
        for j in range(i + 1, len(host)):
            like = (one.shape, one.dtype, one.strides) == (
                host[j].shape, host[j].dtype, host[j].strides,
            )  # fmt: skip
            if like and one.size > 1:
                return i, j
    return None


def _configs(subject: Subject, dtype: str) -> list[str]:
    """Every config builds and is right."""
    for setup in setups(subject, dtype):
        for config in subject.configs(setup.problem)[1:MOST_CONFIGS]:
            tried = replace(setup, kernel=subject.compile(setup.problem, config))
            results = _run(tried, setup.values(), "configs")
            if wrong := check.check(subject.op, setup.problem, setup.values(), tuple(results)):
                raise Failed("configs", *(f"{dict(config)}: {w}" for w in wrong))
        return []
    return _NONE


def _threads(subject: Subject, dtype: str) -> list[str]:
    """One kernel, several threads, each with data of its own."""
    for setup in setups(subject, dtype):
        data = [setup.values(seed) for seed in range(THREADS)]
        for host in data[:1]:
            setup.verify("threads", host, _run(setup, host, "threads"))
        wrong = _in_threads(setup, data)
        if wrong:
            raise Failed("threads", *wrong[:3])
        return []
    return _NONE


def _in_threads(setup: Setup, data: Sequence[list[Any]]) -> list[str]:
    found: list[str] = []
    barrier = threading.Barrier(len(data))

    def work(host: list[Any]) -> None:
        try:
            barrier.wait(timeout=30)
            results = [setup.subject.run(setup.kernel, host).now for _ in range(CALLS)]
            for result in results:
                found.extend(check.check(setup.subject.op, setup.problem, host, tuple(result)))
        except Failed as failure:
            found.extend(failure.reasons)
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")

    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(host,)) for host in data]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(pause)
    return found


def _dispatch(subject: Subject, dtype: str) -> list[str]:
    """The public function runs this backend, exactly once, and gives NumPy arrays for NumPy's."""
    for setup in setups(subject, dtype):
        host = setup.values()
        done = subject.call(host, dict(setup.case.params), setup.problem)
        if done.launches != [subject.candidate]:
            raise Failed("dispatch", f"launched {done.launches}, not [{subject.candidate!r}]")
        setup.verify("dispatch", host, done.on_host())
        results = done.result if isinstance(done.result, tuple) else (done.result,)
        foreign = [type(r).__name__ for r in results if type(r) is not np.ndarray]
        if foreign:
            raise Failed("dispatch", f"NumPy arrays went in, {', '.join(foreign)} came out")
        return []
    return _NONE


def _streams(subject: Subject, dtype: str) -> list[str]:
    """On a stream of the caller's: inputs that are still being made there must be waited for."""
    other: Any = getattr(subject.family, "other_stream", None)
    if other is None or subject.device.id == "cpu":
        return ["the family has no streams"]
    for setup in setups(subject, dtype):
        host = setup.values()
        garbage = [np.zeros_like(a) for a in host]
        with other(subject.device.id):
            native = [subject.native(a) for a in garbage]
            late = [subject.native(a) for a in host]
            subject.backend.synchronize(subject.device)
            _keep_busy(late[0])
            for place, values in zip(native, late, strict=True):
                place[...] = values
            result = subject.run_native(setup.kernel, native)
        setup.verify("streams", host, result.now)
        return []
    return _NONE


def _keep_busy(like: Any) -> None:
    """Some milliseconds of work on the current stream."""
    total = like
    for _ in range(2000):
        total = total + like


def _wait(subject: Subject, dtype: str) -> list[str]:
    """What synchronize() has waited for need not be waited for again."""
    if subject.device.id == "cpu":
        return ["calls on the CPU return when they are done; see the check `late`"]
    for setup in setups(subject, dtype):
        native = [subject.native(a) for a in setup.values()]
        subject.run_native(setup.kernel, native)
        busy, idle = [], []
        for _ in range(5):
            busy.append(_time_to_host(setup, native, pause=0.0))
            idle.append(_time_to_host(setup, native, pause=0.05))
        if min(busy) > 2 * min(idle) + 1e-3:
            raise Failed(
                "wait", f"reading the result took {min(busy):.2g} s right after synchronize(), "
                f"{min(idle):.2g} s later: work was still under way",
            )  # fmt: skip
        return []
    return _NONE


def _time_to_host(setup: Setup, native: Sequence[Any], pause: float) -> float:
    subject = setup.subject
    outcome = setup.kernel(*native)
    subject.backend.synchronize(subject.device)
    time.sleep(pause)
    start = time.perf_counter()
    for result in outcome if isinstance(outcome, tuple) else (outcome,):
        subject.family.to_host(result)
    return time.perf_counter() - start


def _many(subject: Subject, dtype: str) -> list[str]:
    """Twenty calls whose data change each time; all results are kept and stay right."""
    for setup in setups(subject, dtype):
        data = [setup.values(seed) for seed in range(4)]
        kept = [subject.run(setup.kernel, data[i % 4]) for i in range(20)]
        for i, results in enumerate(kept):
            if results.changed():
                raise Failed("reuse", f"the result of call {i} was changed by a later one")
            if subject.deterministic and not same(results.now, kept[i % 4].now):
                raise Failed("determinism", f"call {i} gave other bits than call {i % 4}")
            if i < 4 or not subject.deterministic:
                setup.verify("stale", data[i % 4], results.now)
        return []
    return _NONE


@dataclass(frozen=True, slots=True)
class Kind:
    """A probe's level, whether it runs in every dtype, and what it does."""

    level: str
    every_dtype: bool
    run: Callable[[Subject, str], list[str]]


PROBES: dict[str, Kind] = {
    "dispatch": Kind("core", False, _dispatch),
    "alignment": Kind("core", True, _on_arrays("alignment", _misaligned)),
    "read-only": Kind("core", True, _on_arrays("read-only", _readonly)),
    "aliasing": Kind("core", True, _aliased),
    "threads": Kind("core", False, _threads),
    "configs": Kind("full", True, _configs),
    "stale": Kind("full", True, _many),
    "streams": Kind("full", False, _streams),
    "wait": Kind("full", False, _wait),
    "far": Kind("hostile", True, _far),
}
