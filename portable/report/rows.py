"""The facts: one row per problem, device, candidate and config, from record files alone.

A row joins a record with the cost of its problem, the hardware database and the other rows of the
same problem and device. Nothing of the machine that makes the report enters it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from portable import dtypes, registry, roofline
from portable.device import DeviceSpec
from portable.errors import DTypeError, UnknownNameError
from portable.op import Cost, Problem, Work
from portable.records import Record
from portable.report.attribution import Step, attribute
from portable.report.places import Place, places_of, roofs_of
from portable.roofline import Roofs, SpeedOfLight

NO_SCORE = roofline.Score(None, "invalid", "not timed")

NATIVE = "vendor library"
"""The porting path whose best time is the native baseline T_b."""


@dataclass(slots=True, eq=False)
class Row:
    """One fact. Times in seconds; None where a figure has no meaning.

    Attributes:
        record: the measurement.
        place: its device.
        number: the same for rows of the same problem.
        label: shapes and parameters, short.
        candidate: backend, with the runtime where there is one: "opencl[pocl]".
        path: porting path.
        config: tuning parameters as text.
        cost: compulsory work; None when the op is not known here.
        status: of the record; "bound_violated" also when only this report finds it.
        reason: why the status is not "ok".
        time: median [s]; None unless there are samples.
        spread: relative noise of the samples; None for fewer than two.
        sol: speed of light of the problem on the device.
        roof: least time by the measured roofs, launch floor included.
        sol_fraction, roof_fraction: bound over time, in [0, 1].
        mfu: share of the peak of the busiest unit.
        baseline: T_b [s], the best vendor-native time; `baseline_name` is who.
        best: least time [s] of all; `best_name` is who.
        score: SOL score.
        steps: attribution of the time.
        headline: the row that stands for its candidate in matrices, charts and sums: the fastest
            config, cold where there is a cold measurement.
        chosen: the selector's choice.
        older: earlier records of the same thing, which this one replaces.
        flags: what a reader must know: "estimated peaks", "warm", ...
    """

    record: Record
    place: Place
    number: int
    label: str
    candidate: str
    path: str
    config: str
    cost: Cost | None
    status: str
    reason: str
    time: float | None
    spread: float | None = None
    sol: SpeedOfLight | None = None
    roof: SpeedOfLight | None = None
    sol_fraction: float | None = None
    roof_fraction: float | None = None
    mfu: float | None = None
    baseline: float | None = None
    baseline_name: str = ""
    best: float | None = None
    best_name: str = ""
    score: roofline.Score = NO_SCORE
    steps: tuple[Step, ...] = ()
    headline: bool = False
    chosen: bool = False
    older: int = 0
    flags: tuple[str, ...] = ()

    @property
    def problem(self) -> Problem:
        """What was computed."""
        return self.record.problem

    @property
    def ok(self) -> bool:
        """Whether the time is correct and above the bound."""
        return self.status == "ok" and self.time is not None

    @property
    def application_efficiency(self) -> float | None:
        """Best known time on this problem and device over own time."""
        return self.best / self.time if self.ok and self.best and self.time else None

    @property
    def gap_best(self) -> float | None:
        """Porting gap: own time over the best known one, >= 1."""
        return self.time / self.best if self.ok and self.best and self.time else None

    @property
    def gap_native(self) -> float | None:
        """Own time over the best vendor-native time; below 1 when faster."""
        return self.time / self.baseline if self.ok and self.baseline and self.time else None


def build_rows(
    records: Iterable[Record], chosen: Mapping[Problem, str] | None = None
) -> tuple[list[Row], list[Place]]:
    """Rows and devices of records; the newest record of each thing counts.

    Args:
        records: from one or several machines.
        chosen: candidate names the selector chose, by problem.
    """
    with _no_garbage_collection():
        return _build(records, chosen)


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A hundred thousand rows are a million objects without cycles; searching them is a third."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _build(
    records: Iterable[Record], chosen: Mapping[Problem, str] | None
) -> tuple[list[Row], list[Place]]:
    cache = _Cache()
    newest = _newest(records, cache)
    places = places_of([record for record, _ in newest])
    by_key = {place.key: place for place in places}
    rows = [_row(r, by_key[r.machine, r.device.id], cache, n) for r, n in newest]
    for group in _groups(rows):
        _compare(group)
    for group in _by_place(rows).values():
        _mark_headlines(group)
    picks = {identity(p): name for p, name in (chosen or {}).items()}
    for row in rows:
        row.chosen = row.headline and picks.get(identity(row.problem)) == row.candidate
    return rows, places


def identity(problem: Problem) -> Problem:
    """A problem without what a workload cannot know: declared precision, spelled-out strides."""
    plain = all(t.strides is None or not t.contiguous for t in (*problem.tensors, *problem.results))
    if problem.precision == "highest" and plain:
        return problem
    return replace(
        problem,
        precision="highest",
        tensors=tuple(t.dense() if t.contiguous else t for t in problem.tensors),
        results=tuple(t.dense() if t.contiguous else t for t in problem.results),
    )


# --- which records count -----------------------------------------------------------------------


def _newest(records: Iterable[Record], cache: _Cache) -> list[tuple[Record, int]]:
    """The newest record of each thing, and how many others it replaces."""
    found: dict[object, tuple[Record, int]] = {}
    for record in records:
        key = (
            cache.number(record.problem), record.machine, record.device.id, record.backend,
            record.runtime, record.implementation, _config(record.config), record.cache,
        )  # fmt: skip
        if key not in found:
            found[key] = (record, 0)
            continue
        other, count = found[key]
        same = record == other
        keep = record if record.created >= other.created else other
        found[key] = (keep, count if same else count + 1)
    return list(found.values())


def _config(config: Mapping[str, object]) -> str:
    return " ".join(f"{k}={v}" for k, v in sorted(config.items())) if config else ""


# --- one row -----------------------------------------------------------------------------------


class _Cache:
    """What many rows share, by the number of their problem: a problem is slow to hash."""

    def __init__(self) -> None:
        self._numbers: dict[Problem, int] = {}
        self._costs: dict[int, tuple[Cost | None, str]] = {}
        self._sols: dict[tuple[int, int], SpeedOfLight | None] = {}
        self._roofs: dict[object, Roofs | None] = {}
        self._bounds: dict[object, SpeedOfLight] = {}

    def number(self, problem: Problem) -> int:
        return self._numbers.setdefault(problem, len(self._numbers))

    def cost_and_label(self, number: int, problem: Problem) -> tuple[Cost | None, str]:
        if number not in self._costs:
            self._costs[number] = (cost_of(problem), short(problem))
        return self._costs[number]

    def sol(self, number: int, cost: Cost | None, place: Place) -> SpeedOfLight | None:
        key = (number, id(place))
        if key not in self._sols:
            self._sols[key] = sol_of(cost, place.spec)
        return self._sols[key]

    def roofs(self, record: Record) -> Roofs | None:
        key = tuple(record.roofs.items())
        if key not in self._roofs:
            self._roofs[key] = roofs_of(record)
        return self._roofs[key]

    def bound(self, number: int, cost: Cost, roofs: Roofs, level: str) -> SpeedOfLight:
        key = (number, id(roofs), level)
        if key not in self._bounds:
            self._bounds[key] = roofline.roof(cost, replace(roofs, latency=0.0), level)
        return self._bounds[key]


def cost_of(problem: Problem) -> Cost | None:
    """Compulsory work; None when this installation has no such op in that contract version."""
    try:
        op = registry.op(problem.op)
    except UnknownNameError:
        return None
    return op.cost(problem) if op.version == problem.version else None


def sol_of(cost: Cost | None, spec: DeviceSpec | None) -> SpeedOfLight | None:
    """T_SOL; None without an entry, or where it has no matrix peak for a dtype of the work.

    Vector and special work whose peak is not published adds no bound: what remains is a lower one,
    and is marked as estimated.
    """
    if cost is None or spec is None:
        return None
    known = tuple(w for w in cost.work if _has_peak(spec, w))
    if any(w.unit == "matrix" for w in cost.work if w not in known):
        return None
    sol = roofline.speed_of_light(replace(cost, work=known), spec)
    return sol if len(known) == len(cost.work) else replace(sol, estimated=True)


def _has_peak(spec: DeviceSpec, work: Work) -> bool:
    try:
        spec.way(work.dtype, work.unit)
    except DTypeError:
        return False
    return True


def short(problem: Problem) -> str:
    """Shapes and parameters in few words: "f32 8x512 @ 512x512 axis=1"."""
    tensors = " · ".join(
        ("x".join(map(str, t.shape)) or "()") + ("" if t.layout == "contiguous" else f" {t.layout}")
        for t in problem.tensors
    )
    params = "".join(
        f" {k}={v:.3g}" if isinstance(v, float) else f" {k}={v}"
        for k, v in problem.params
        if v not in (None, False, "none") and k != "eps"
    )
    return f"{dtypes.short(problem.dtype)} {tensors}{params}"


def _row(record: Record, place: Place, cache: _Cache, older: int) -> Row:
    number = cache.number(record.problem)
    cost, label = cache.cost_and_label(number, record.problem)
    time = record.time if record.samples and record.time > 0 else None
    row = Row(
        record=record,
        place=place,
        number=number,
        label=label,
        candidate=f"{record.backend}[{record.runtime}]" if record.runtime else record.backend,
        path=path_of(record),
        config=_config(record.config),
        cost=cost,
        status=record.status,
        reason=record.reason,
        time=time,
        spread=record.spread if time is not None and len(record.samples) > 1 else None,
        sol=cache.sol(number, cost, place),
        older=older,
    )
    if time is not None and cost is not None:
        _judge(row, time, cost, cache)
    row.flags = _flags(row)
    return row


def path_of(record: Record) -> str:
    """Porting path: as recorded, else the backend's as registered here, else unknown."""
    recorded = record.details.get("path")
    if isinstance(recorded, str) and recorded:
        return recorded
    entry = _registered().get(record.backend)
    return entry or "unknown"


@functools.cache
def _registered() -> dict[str, str]:
    return {n: e.backend.path for n, e in registry.registered().items() if e.backend is not None}


def _judge(row: Row, time: float, cost: Cost, cache: _Cache) -> None:
    sol, record = row.sol, row.record
    roofs = cache.roofs(record)
    bound = None
    if roofs is not None:
        level = _level(row, roofs)
        bound = cache.bound(row.number, cost, roofs, level)
        row.roof = bound if bound.time >= roofs.latency else replace(
            bound, time=roofs.latency, bound_by="launch"
        )  # fmt: skip
        row.roof_fraction = min(row.roof.time / time, 1.0)
    if sol is not None:
        _against_sol(row, sol, time)
    row.steps = attribute(
        time,
        sol.time if sol else None,
        bound.time if bound else None,
        record.details,
        roofs.latency if roofs else 0.0,
    )


def _against_sol(row: Row, sol: SpeedOfLight, time: float) -> None:
    # What is timed warm may sit in a cache: only the compute bound holds then.
    lowest = sol.time if row.record.cache == "cold" else sol.compute_time
    if time < lowest and row.status == "ok":
        row.status = "bound_violated"
        row.reason = f"{time:.3g} s is below the least possible {lowest:.3g} s: a number is wrong"
    if row.status in ("ok", "incorrect"):
        row.sol_fraction = roofline.fraction(sol.time, time).value
        row.mfu = roofline.fraction(sol.compute_time, time).value if sol.unit else None


def _level(row: Row, roofs: Roofs) -> str:
    """The bandwidth that feeds a warm problem: the smallest measured cache that holds it."""
    if row.record.cache != "warm" or row.place.spec is None or row.cost is None:
        return "dram"
    caches = row.place.spec.caches
    fits = [n for n, size in caches.items() if n in roofs.bandwidth and size >= row.cost.bytes]
    return min(fits, key=lambda n: caches[n], default="dram")


def _flags(row: Row) -> tuple[str, ...]:
    flags = []
    if row.record.cache == "warm":
        flags.append("warm")
    if row.sol is not None and row.sol.estimated:
        flags.append("estimated peak")
    if row.sol is None:
        flags.append("no speed of light")
    elif row.ok and row.sol_fraction is None:
        flags.append("in cache: memory bound does not hold")
    if row.roof is not None and row.time is not None and row.time < row.roof.time:
        flags.append("beats the measured roof")
    if row.cost is None:
        flags.append("op or contract unknown here")
    return tuple(flags)


# --- rows against each other -------------------------------------------------------------------


def _groups(rows: Sequence[Row]) -> Iterable[list[Row]]:
    """Rows that may be compared: one problem, one device, one cache state."""
    found: dict[object, list[Row]] = {}
    for row in rows:
        key = (row.number, id(row.place), row.record.cache)
        found.setdefault(key, []).append(row)
    return found.values()


def _by_place(rows: Sequence[Row]) -> dict[object, list[Row]]:
    found: dict[object, list[Row]] = {}
    for row in rows:
        found.setdefault((row.number, id(row.place)), []).append(row)
    return found


def _compare(group: Sequence[Row]) -> None:
    """Best time, native baseline and SOL score of rows that may be compared."""
    right = [r for r in group if r.ok]
    best = min(right, key=_time, default=None)
    native = min((r for r in right if r.path == NATIVE), key=_time, default=None)
    for row in group:
        if best is not None:
            row.best, row.best_name = best.time, best.candidate
        if native is not None:
            row.baseline, row.baseline_name = native.time, native.candidate
        row.score = _score(row)


def _score(row: Row) -> roofline.Score:
    if row.status == "incorrect":
        return roofline.Score(0.0, "incorrect", row.reason)
    if row.time is None or row.status != "ok":
        return roofline.Score(None, "invalid", row.reason or row.status)
    if row.sol is None:
        return roofline.Score(None, "invalid", "no speed of light for this device and dtype")
    if row.baseline is None:
        return roofline.Score(None, "invalid", "no vendor-native time on this problem and device")
    return roofline.sol_score(row.time, row.baseline, row.sol.time)


def _mark_headlines(group: Sequence[Row]) -> None:
    """One row per candidate: its fastest config in the cache state that all are compared in."""
    cold = any(r.ok and r.record.cache == "cold" for r in group)
    cache = "cold" if cold else "warm"
    by_candidate: dict[str, list[Row]] = {}
    for row in group:
        by_candidate.setdefault(row.candidate, []).append(row)
    for rows in by_candidate.values():
        right = [r for r in rows if r.ok]
        comparable = [r for r in right if r.record.cache == cache]
        if comparable:
            min(comparable, key=_time).headline = True
        elif not right:
            rows[0].headline = True


def _time(row: Row) -> float:
    return row.time if row.time is not None else math.inf
