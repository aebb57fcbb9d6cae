"""A contest: every eligible candidate of one problem, checked, then timed against the others.

The one way in which `bench`, `tune` and `calibrate` measure. Arrays are those a user would have
on the device: NumPy arrays on the CPU, torch or CuPy arrays on a GPU; conversions to a backend's
own arrays are inside of the timed call, as they are in a user's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from portable import (
    arrays,
    engine,
    estimate,
    evidence,
    explaining,
    filing,
    machine,
    measure,
    registry,
    selector,
)
from portable import stages as staging
from portable.backend import ArrayFamily, Config, Kernel
from portable.errors import PortableError
from portable.op import Op, Problem
from portable.records import Record
from portable.selector import Candidate
from portable.settings import Settings, current

FULL_CHECK_FLOPS = 3e9
"""Problems up to this much work are checked against the float64 reference as a whole; larger ones
against each other, after the gate has passed on small cases."""

FULL_CHECK_ELEMENTS = 1 << 23
"""... and up to this many elements: the reference holds them several times over in float64."""

SMALL = 64 << 10
"""Problems that touch fewer bytes are timed warm: a flush would time cold interpreter code."""

MAX_SETS = 2048
"""Argument sets at the most: 64 KiB as often pass twice through 64 MiB. Where more would be needed
to be cold, the cache is flushed. A flush takes code along as well, and how much of it depends on
who was called before: calls of 0.1 ms took twice as long in one contest as in another."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """A candidate with one config, ready to be called on arrays of the contest's family."""

    name: str
    candidate: Candidate
    run: Callable[..., Any]
    kernel: Kernel


@dataclass(slots=True)
class Result:
    """What a contest found.

    Attributes:
        problem: the problem.
        records: one per entrant, failures included.
        samples: timings by entrant's name, for paired comparisons.
        refused: candidates that cannot run it, with the reason.
        skipped: candidates that could but were not let in, with the reason.
    """

    problem: Problem
    records: list[Record] = field(default_factory=list)
    samples: dict[str, measure.Samples] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def best(self) -> Record | None:
        """The record with the least median among the correct ones."""
        good = [r for r in self.records if r.ok]
        return min(good, key=lambda r: r.time) if good else None


def contest(
    problem: Problem,
    *,
    device: str = "cpu",
    budget: float = 1.0,
    backends: Sequence[str] | None = None,
    configs: int | None = 1,
    only: Sequence[tuple[str, Config]] | None = None,
    cache: str | None = None,
    slowest: float = math.inf,
    stages: bool = False,
    overtime: float = 0.0,
    seed: int = 0,
    settings: Settings | None = None,
) -> Result:
    """Check and time the candidates of a problem, interleaved.

    Args:
        problem: what to compute; strides of its tensors are honoured.
        device: where the arrays live.
        budget: [s] for the timing of all entrants together.
        backends: names of the candidates to let in; None lets everybody in.
        configs: how many configs of each candidate, the one expected to be best first; None: all.
        only: just these (candidate, config) pairs, whatever is expected of them.
        cache: "cold" or "warm"; None: cold, but warm for problems under 64 KiB.
        slowest: candidates expected to take this many times the best expected time are left out,
            unless nobody ever measured them on the op and dtype.
        stages: also time conversions, kernel and launch apart (`portable.stages`), for reports.
        overtime: [s] that timing may go on after the budget, until it is known who is fastest.
        seed: of values and order.
        settings: wishes to honour; those of the caller by default.
    """
    op = registry.op(problem.op)
    wishes = settings or current.get()
    host = arrays.host_of(device)
    problem = replace(problem, precision=wishes.precision)
    data = _Data(problem, host, device, cache, seed)
    inputs = arrays.look_at(_with_absent(op, problem, data.sets[0]), op.operand_names)
    eligible, refused = selector.candidates(op, problem, inputs, wishes)
    selector.keep_broken(problem, refused)
    result = Result(problem, refused={c.name: "; ".join(c.refused) for c in refused})
    wanted = only or _wanted(problem, eligible, backends, configs, slowest, result)
    entrants = _entrants(op, problem, inputs, eligible, wanted, result)
    right = _checked(op, problem, data, entrants, result)
    if right:
        result.samples = measure.measure(
            {e.name: e.run for e in right},
            arguments=data.sets,
            cache=data.cache,
            flush=data.flush,
            synchronize={e.name: s for e in right if (s := _synchronize(e.candidate))},
            budget=budget,
            overtime=overtime,
            seed=seed,
        )
        for entrant in right:
            record = _record(problem, entrant, result.samples[entrant.name])
            if stages and record.samples:
                record = replace(
                    record, details={**record.details, **_stages(entrant, inputs, data)}
                )
            result.records.append(record)
    return result


def unchecked(
    problem: Problem, *, device: str = "cpu", slowest: float = math.inf
) -> list[tuple[Problem, Candidate]]:
    """Who would be let into a contest of the problem, with a gate still to pass; the problem as
    the contest poses it."""
    op = registry.op(problem.op)
    wishes = current.get()
    problem = replace(problem, precision=wishes.precision)
    inputs = explaining.imagined_inputs(problem, device)
    eligible, _ = selector.candidates(op, problem, inputs, wishes)
    wanted = dict(_wanted(problem, eligible, None, 1, slowest, Result(problem)))
    left = [c for c in eligible if c.name in wanted and not selector.gated(problem, c)]
    return [(problem, candidate) for candidate in left]


def _stages(entrant: Entrant, inputs: arrays.Inputs, data: _Data) -> Mapping[str, float]:
    try:
        return staging.stages(
            data.problem, entrant.candidate, entrant.kernel, inputs, data.sets, flush=data.flush
        )
    except Exception:
        return {}  # the whole call was timed; only its split is missing


class _Data:
    """Argument sets of a contest and the cache state they make."""

    def __init__(
        self, problem: Problem, host: ArrayFamily, device: str, cache: str | None, seed: int
    ) -> None:
        from portable import cases

        touched = sum(t.touched_bytes for t in (*problem.tensors, *problem.results))
        self.cache = cache or ("warm" if touched < SMALL else "cold")
        self.problem = problem
        self.host = cases.problem_arrays(problem, seed)
        self.flush: measure.Flusher | None = None
        count = 1
        if self.cache == "cold":
            last_level = machine.last_level_cache(device)
            count = measure.rotation(touched, last_level)
            if count > MAX_SETS:
                self.flush, count = measure.Flusher(last_level), 1
        copies = [self.host, *(_copied(self.host) for _ in range(count - 1))]
        self.sets = [tuple(host.from_host(a, device) for a in one) for one in copies]


def _copied(host: Sequence[Any]) -> list[Any]:
    """The same values elsewhere in memory, with the same strides."""
    import numpy as np

    found = []
    for array in host:
        twin = np.lib.stride_tricks.as_strided(
            np.empty(_span(array), dtype=array.dtype)[_offset(array) :],
            shape=array.shape,
            strides=array.strides,
        )
        if 0 not in array.strides:
            twin[...] = array
        found.append(twin if 0 not in array.strides else array)
    return found


def _span(array: Any) -> int:
    steps = [(n - 1) * abs(s) for n, s in zip(array.shape, array.strides, strict=True) if n]
    return int(sum(steps) // array.itemsize + 1) if array.size else 1


def _offset(array: Any) -> int:
    back = [(n - 1) * -s for n, s in zip(array.shape, array.strides, strict=True) if s < 0 and n]
    return int(sum(back) // array.itemsize)


def _with_absent(op: Op, problem: Problem, present: Sequence[Any]) -> tuple[Any, ...]:
    by_name = dict(zip(problem.operands, present, strict=True))
    return tuple(by_name.get(name) for name in op.operand_names)


def _wanted(
    problem: Problem,
    eligible: Sequence[Candidate],
    backends: Sequence[str] | None,
    configs: int | None,
    slowest: float,
    result: Result,
) -> list[tuple[str, Config]]:
    """Who is let in, by name and config."""
    found: list[tuple[str, Config]] = []
    limit = slowest * min((_expected(c) for c in eligible), default=math.inf)
    for candidate in eligible:
        if backends is not None and not {candidate.name, candidate.backend} & set(backends):
            continue
        if _expected(candidate) > limit and not _a_guess(candidate):
            ratio = slowest * _expected(candidate) / limit
            result.skipped[candidate.name] = f"expected {ratio:.0f} times slower than the best"
            continue
        own = [
            candidate.config,
            *(c for c in _configs(candidate, problem) if c != candidate.config),
        ]
        found += [(candidate.name, config) for config in own[:configs]]
    return found


def _entrants(
    op: Op,
    problem: Problem,
    inputs: arrays.Inputs,
    eligible: Sequence[Candidate],
    wanted: Sequence[tuple[str, Config]],
    result: Result,
) -> list[Entrant]:
    """Those wanted, built; who does not build or pass the gate becomes a record."""
    by_name = {c.name: c for c in eligible}
    found = []
    for name, config in wanted:
        entrant = replace(by_name[name], config=config)
        try:
            kernel = selector.build(op, problem, entrant)
        except Exception as error:
            result.records.append(_failure(problem, entrant, _status(error), error))
            continue
        run = engine.join(kernel, entrant, inputs)
        found.append(Entrant(label(name, config), entrant, run, kernel))
    return found


def label(name: str, config: Config) -> str:
    """The name under which a candidate with a config stands in a Result."""
    return f"{name} {evidence.config_key(config)}" if config else name


def entrant_name(record: Record) -> str:
    """The name under which a record's samples stand in a Result."""
    return label(candidate_name(record), record.config)


def candidate_name(record: Record) -> str:
    """The candidate a record is of: its backend, with the runtime where there is one."""
    return f"{record.backend}[{record.runtime}]" if record.runtime else record.backend


def _expected(candidate: Candidate) -> float:
    assert candidate.estimate is not None
    return candidate.estimate.time


def _a_guess(candidate: Candidate) -> bool:
    """Whether nothing was ever measured of it on this op and dtype."""
    assert candidate.estimate is not None
    return candidate.estimate.basis in (estimate.ROOFLINE, estimate.EFFICIENCY)


def _configs(candidate: Candidate, problem: Problem) -> Sequence[Config]:
    assert candidate.implementation is not None
    posed = candidate.posed(problem)
    return candidate.implementation.configs(posed, candidate.device) or [{}]


def _checked(
    op: Op, problem: Problem, data: _Data, entrants: list[Entrant], result: Result
) -> list[Entrant]:
    """Those whose result for this very problem is right; the others become records."""
    verdict = _reference_verdict(op, problem, data.host) or _peer_verdict()
    right = []
    for entrant in entrants:
        try:
            outcome = entrant.run(*data.sets[0])
            host = _results_on_host(outcome, data.sets[0][0])
            wrong = verdict(host)
        except Exception as error:
            result.records.append(_failure(problem, entrant.candidate, _status(error), error))
            continue
        if wrong:
            failure = PortableError("; ".join(wrong))
            result.records.append(_failure(problem, entrant.candidate, "incorrect", failure))
        else:
            right.append(entrant)
    return right


Verdict = Callable[[tuple[Any, ...]], list[str]]


def _reference_verdict(op: Op, problem: Problem, host: Sequence[Any]) -> Verdict | None:
    from portable import check

    elements = sum(t.size for t in (*problem.tensors, *problem.results))
    if op.cost(problem).flops > FULL_CHECK_FLOPS or elements > FULL_CHECK_ELEMENTS:
        return None
    expected = op.reference(problem, host)
    bounds = op.tolerance(problem, host, expected)
    return functools.partial(check.check_against, problem, expected, bounds)


def _peer_verdict() -> Verdict:
    """For large problems: the relative RMS distance to the first result that was let in."""
    first: list[tuple[Any, ...]] = []

    def verdict(results: tuple[Any, ...]) -> list[str]:
        import numpy as np

        from portable import dtypes

        if not first:
            first.append(results)
            return []
        for mine, theirs in zip(results, first[0], strict=True):
            a, b = mine.astype(np.float32), theirs.astype(np.float32)
            differ = a != b  # equal infinities do not
            scale = float(np.linalg.norm(b[np.isfinite(b)])) or 1.0
            apart = float(np.linalg.norm(a[differ] - b[differ])) / scale
            limit = max(4 * dtypes.roundoff(str(mine.dtype)), 1e-5)
            if not apart <= limit:
                return [f"relative RMS distance to a peer is {apart:.2g} (limit {limit:.2g})"]
        return []

    return verdict


def _results_on_host(outcome: Any, like: Any) -> tuple[Any, ...]:
    family = arrays.family_of(like)
    results = outcome if isinstance(outcome, tuple) else (outcome,)
    return tuple(family.to_host(r) for r in results)


def _synchronize(candidate: Candidate) -> Callable[[], Any] | None:
    if candidate.device.id == "cpu":
        return None  # results are in the caller's NumPy arrays when the call returns
    return functools.partial(registry.backend(candidate.backend).synchronize, candidate.device)


def _record(problem: Problem, entrant: Entrant, samples: measure.Samples) -> Record:
    if samples.status != "ok" or not samples.times:
        reason = samples.reason or "no sample inside the time box"
        status = samples.status if samples.status != "ok" else "skipped"
        return filing.blank(problem, entrant.candidate, status, reason)
    blank = filing.blank(problem, entrant.candidate, "skipped")
    return replace(
        blank,
        samples=samples.times,
        cache=samples.cache,
        method=samples.method,
        status=_bound_status(problem, entrant.candidate, samples),
        details={**blank.details, "first_call": samples.first, "inner": samples.inner},
    )


def refusals(result: Result) -> list[Record]:
    """Records of who was not let in, so that a record file tells why somebody has no time.

    They belong in files, not in the store: what is missing today may be installed tomorrow.
    """
    if not result.records:
        return []
    ran = {candidate_name(r) for r in result.records}
    return [
        _refusal(result.records[0], name, status, reason)
        for status, names in (("unsupported", result.refused), ("skipped", result.skipped))
        for name, reason in names.items()
        if reason and name not in ran
    ]


def _refusal(like: Record, name: str, status: str, reason: str) -> Record:
    backend, _, runtime = name.rstrip("]").partition("[")
    entry = registry.registered().get(backend)
    path = entry.backend.path if entry is not None and entry.backend is not None else ""
    return Record(
        problem=like.problem,
        backend=backend,
        implementation="",
        device=like.device,
        runtime=runtime,
        status=status,
        reason=reason[:2000],
        machine=like.machine,
        created=like.created,
        details={"path": path} if path else {},
    )


def _bound_status(problem: Problem, candidate: Candidate, samples: measure.Samples) -> str:
    """A cold, correct time below the speed of light is a defect of the bound, never a score."""
    cost = registry.op(problem.op).cost(problem)
    sol = machine.device(candidate.device.id).speed_of_light(cost)
    beaten = sol is not None and samples.cache == "cold" and samples.time < sol.time
    return "bound_violated" if beaten else "ok"


def _failure(problem: Problem, candidate: Candidate, status: str, error: Exception) -> Record:
    return filing.blank(problem, candidate, status, f"{type(error).__name__}: {error}")


def _status(error: Exception) -> str:
    from portable.errors import CompileError, WrongResultError

    if isinstance(error, CompileError):
        return "compile_error"
    if isinstance(error, WrongResultError):
        return error.status
    return measure.classify(error)[0]


__all__ = ["Entrant", "Result", "contest", "refusals"]
