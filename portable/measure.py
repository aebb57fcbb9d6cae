"""Timing that can be compared: interleaved candidates, medians with spread, paired comparisons.

All candidates of one call are measured in rounds: every round times each of them once, in a new
random order. What disturbs the machine then disturbs all of them, and the ratio within a round says
more than two medians do.

`cache="warm"` repeats the same arguments. `cache="cold"` needs what makes it true: several argument
sets that together exceed the last-level cache (`rotation` says how many), or a `flush` that is
called before every sample (`Flusher`).

A sample during which the system took the processor away (an involuntary context switch) says how
busy the machine is, not how fast the candidate: it is left out, and counted, where enough others
are left; otherwise the least disturbed third counts.
"""

from __future__ import annotations

import contextlib
import gc
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portable.samples import (
    Comparison,
    Samples,
    compare,
    decided,
    fastest,
    significantly_faster,
)
from portable.stats import median

__all__ = [
    "Comparison",
    "Flusher",
    "Samples",
    "classify",
    "compare",
    "decided",
    "fastest",
    "measure",
    "rotation",
    "significantly_faster",
]

# The clock as it was at import: code that is measured cannot replace it later.
_clock: Callable[[], int] = time.perf_counter_ns

try:
    import resource

    _usage, _SELF = resource.getrusage, resource.RUSAGE_SELF
except ImportError:  # Windows
    _usage = None  # type: ignore[assignment]

Candidate = Callable[..., Any]
Timer = Callable[[Callable[[], Any]], float]
"""Runs the callable once and returns the seconds the device took: `backend.timer(device)`."""

SAMPLE_SECONDS = 100e-6
"""Shortest sample worth taking: faster calls are repeated inside one sample."""
MIN_SAMPLES = 5
CLEAN = 3
"""Undisturbed samples that are enough to do without the disturbed ones."""
PREPARED = 100e-3
"""Calls shorter than this [s] are made untimed before each sample, until one takes no more than
IN_STRIDE times the shortest so far, or for STRIDE_SECONDS."""
IN_STRIDE, STRIDE_SECONDS = 1.3, 70e-3
WARM_SECONDS = 70e-3
"""Length of the warm-up at least [s]: other threads spin for 60 ms, and a pool that slept takes
some milliseconds to spread over the cores again."""
MOST_ROUNDS = 3
"""Times max_samples: rounds at the most, when many samples are disturbed."""
MAX_SAMPLES = 101
SETTLED_ROUNDS = 15
"""Rounds before the measurement may end early."""
SLOW = 3.0
"""Candidates this many times slower than the best one rest after MIN_SAMPLES."""
TOO_MUCH_MEMORY = ("out of memory", "OUT_OF_MEMORY", "RESOURCE_EXHAUSTED", "bad_alloc")
"""Marks in the messages of libraries that have no exception type for it."""


@dataclass(slots=True)
class _Cursor:
    """Where the rotation through the argument sets stands: one for all candidates, because the
    set that one of them has just used is warm for the next."""

    position: int = 0

    def take(self, sets: Sequence[tuple[Any, ...]], count: int) -> list[tuple[Any, ...]]:
        """The next sets."""
        start = self.position
        self.position += count
        return [sets[(start + i) % len(sets)] for i in range(count)]


@dataclass(slots=True)
class _Run:
    """One candidate while it is measured."""

    call: Candidate
    arguments: Sequence[tuple[Any, ...]]
    cursor: _Cursor
    synchronize: Callable[[], Any] | None
    timer: Timer | None
    inner: int = 1
    first: float = math.nan
    warm: float = math.inf
    """Shortest call of the warm-up [s]."""
    taken: list[tuple[int, float, int]] = field(default_factory=list)
    """(round, [s] per call, involuntary context switches meanwhile)."""
    status: str = "ok"
    reason: str = ""

    @property
    def clean(self) -> int:
        """Number of samples that nothing disturbed."""
        return sum(not switches for _, _, switches in self.taken)

    @property
    def kept(self) -> list[tuple[int, float, int]]:
        """The undisturbed samples; where they are too few, the least disturbed third."""
        most = 0
        if self.clean < CLEAN and self.taken:
            ordered = sorted(switches for _, _, switches in self.taken)
            most = ordered[min(max(CLEAN, len(ordered) // 3), len(ordered)) - 1]
        return [sample for sample in self.taken if sample[2] <= most]

    @property
    def times(self) -> list[float]:
        """Times that count."""
        return [time for _, time, _ in self.kept]

    def prepare(self) -> None:
        """Untimed calls after another candidate has run, until this one is in its stride: they wake
        the threads of its pool, outlast those of the other one that still spin (OpenBLAS: 60 ms),
        and warm the code (not the data)."""
        least = self.least
        if least > PREPARED:
            return
        begin = now = _clock()
        while now - begin <= STRIDE_SECONDS * 1e9:
            start = now
            with contextlib.suppress(Exception):  # the timed call will say
                self.call(*self.cursor.take(self.arguments, 1)[0])
            now = _clock()
            if (now - start) * 1e-9 <= IN_STRIDE * least:
                return

    @property
    def least(self) -> float:
        """The shortest time so far [s] per call, warm-up included."""
        return min([self.warm, *(time for _, time, _ in self.taken)])

    def sample(self) -> float:
        """Seconds per call over `inner` calls, each with the next argument set."""
        turn = self.cursor.take(self.arguments, self.inner)
        if self.timer is not None:
            return self.timer(lambda: _repeat(self.call, turn)) / self.inner
        call, synchronize, clock = self.call, self.synchronize, _clock
        if synchronize is not None:
            synchronize()
        start = clock()
        for arguments in turn:
            call(*arguments)
        if synchronize is not None:
            synchronize()
        return (clock() - start) * 1e-9 / self.inner

    def guarded(self, round_: int) -> None:
        """One sample kept; a failure ends this candidate, not the measurement."""
        before = _switches()
        try:
            time = self.sample()
        except Exception as error:
            self.fail(error)
            return
        switches = _switches() - before if self.timer is None else 0
        self.taken.append((round_, time, switches))

    def samples(self, cache: str = "warm", method: str = "wall") -> Samples:
        """What was measured so far."""
        kept = self.kept
        return Samples(
            tuple(time for _, time, _ in kept), tuple(round_ for round_, _, _ in kept),
            self.inner, cache, method, self.first, self.status, self.reason,
            len(self.taken) - len(kept),
        )  # fmt: skip

    def fail(self, error: Exception) -> None:
        """Remember how it failed."""
        self.status, self.reason = classify(error)


def _switches() -> int:
    """Involuntary context switches of this process so far; 0 where the system does not count."""
    return int(_usage(_SELF).ru_nivcsw) if _usage is not None else 0


def _repeat(call: Candidate, turn: Sequence[tuple[Any, ...]]) -> None:
    for arguments in turn:
        call(*arguments)


def classify(error: BaseException) -> tuple[str, str]:
    """The status and the reason of an exception: ("oom" or "exception", "Type: message")."""
    text = f"{type(error).__name__}: {error}".strip()
    memory = isinstance(error, MemoryError) or any(mark in text for mark in TOO_MUCH_MEMORY)
    return ("oom" if memory else "exception"), text[:1000]


def measure(
    candidates: Mapping[str, Candidate],
    *,
    arguments: Mapping[str, Sequence[tuple[Any, ...]]] | Sequence[tuple[Any, ...]] = ((),),
    cache: str = "warm",
    flush: Callable[[], Any] | None = None,
    synchronize: Mapping[str, Callable[[], Any]] | Callable[[], Any] | None = None,
    timers: Mapping[str, Timer] | None = None,
    method: str = "wall",
    budget: float = 1.0,
    overtime: float = 0.0,
    min_samples: int = MIN_SAMPLES,
    max_samples: int = MAX_SAMPLES,
    seed: int = 0,
    progress: Callable[[int, int], Any] | None = None,
) -> dict[str, Samples]:
    """Time candidates against each other.

    Args:
        candidates: what to call, by name.
        arguments: argument sets that successive calls rotate through, whichever candidate they
            are of; one list for all, or one per candidate. Default: calls without arguments.
        cache: "warm" or "cold". Cold needs several argument sets or `flush`.
        flush: called before every sample, outside of the timed part; then a sample is one call.
        synchronize: waits for the device; one for all, or one per candidate.
        timers: device timers by candidate; those without one use the host clock.
        method: name of the timing method where `timers` has one; otherwise "wall".
        budget: [s] for all rounds together, after the warm-up. Each candidate gets one sample,
            however long it takes, and `min_samples` where the budget allows. Rounds end early
            when the fastest one is known beyond the noise.
        overtime: [s] that rounds may go on after the budget, until it is known of every other one
            whether it is slower than the fastest by more than a tie; they do not end before that.
        min_samples, max_samples: undisturbed samples per candidate. Up to three times as many
            rounds are run for them, where the budget allows.
        seed: of the order within the rounds.
        progress: called with (rounds done, rounds wanted).

    Returns:
        Samples by name, in the order given. A candidate that raised has its status and reason, and
        the times it had.

    Raises:
        ValueError: cache is neither, "cold" has nothing to make it so, or limits make no sense.
    """
    _check(candidates, arguments, cache, flush, budget, min_samples, max_samples)
    cursor = _Cursor()
    runs = {
        name: _Run(
            call,
            arguments[name] if isinstance(arguments, Mapping) else arguments,
            cursor,
            synchronize.get(name) if isinstance(synchronize, Mapping) else synchronize,
            (timers or {}).get(name),
        )
        for name, call in candidates.items()
    }
    for run in runs.values():
        _warm_up(run, flush)
    with _no_garbage_collection():
        _rounds(runs, flush, budget, overtime, min_samples, max_samples, seed, progress)
    return {
        name: run.samples(cache, method if run.timer is not None else "wall")
        for name, run in runs.items()
    }


def _rounds(
    runs: Mapping[str, _Run],
    flush: Callable[[], Any] | None,
    budget: float,
    overtime: float,
    min_samples: int,
    max_samples: int,
    seed: int,
    progress: Callable[[int, int], Any] | None,
) -> None:
    order = random.Random(seed)
    started = last = _clock()
    for round_ in range(MOST_ROUNDS * max_samples):
        active = [
            run for run in runs.values()
            if run.status == "ok" and run.clean < max_samples and not _resting(run, runs)
        ]  # fmt: skip
        now = _clock()
        end = (now + (now - last) - started) * 1e-9  # of a round like the last one
        if not active or (round_ and end > budget and (end > budget + overtime or _known(active))):
            return
        last = now
        order.shuffle(active)
        for run in active:
            if len(active) > 1:
                run.prepare()
            if flush is not None:
                flush()
            run.guarded(round_)
        done = round_ + 1
        if progress is not None:
            progress(min(done, max_samples), max_samples)
        settled = done >= max(min_samples, SETTLED_ROUNDS) and done % 5 == 0 and _settled(active)
        if settled and (not overtime or _known(active)):
            return


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _check(
    candidates: Mapping[str, Candidate],
    arguments: Mapping[str, Sequence[tuple[Any, ...]]] | Sequence[tuple[Any, ...]],
    cache: str,
    flush: Callable[[], Any] | None,
    budget: float,
    min_samples: int,
    max_samples: int,
) -> None:
    if cache not in ("cold", "warm"):
        raise ValueError(f"cache is {cache!r} ('cold' or 'warm')")
    if not (budget > 0 and 1 <= min_samples <= max_samples):
        raise ValueError(
            f"budget is {budget} s and samples are {min_samples} to {max_samples}"
            " (budget > 0, 1 <= min_samples <= max_samples)"
        )
    for name in candidates:
        sets = arguments[name] if isinstance(arguments, Mapping) else arguments
        if not sets:
            raise ValueError(f"candidate {name!r} has no argument set (pass [()] for none)")
        if cache == "cold" and flush is None and len(sets) < 2:
            raise ValueError(
                f"candidate {name!r} has one argument set and no flush: its second call would be"
                " warm. Pass more argument sets (see portable.measure.rotation) or a Flusher"
            )


def _warm_up(run: _Run, flush: Callable[[], Any] | None) -> None:
    """First call (timed apart), then how many calls fill one sample."""
    start = _clock()
    try:
        run.sample()
        run.first = (_clock() - start) * 1e-9
        if run.first > 1.0:
            return  # far longer than a sample anyway
        run.warm = estimate = _warm(run)
        if flush is None and estimate < SAMPLE_SECONDS:
            run.inner = math.ceil(SAMPLE_SECONDS / max(estimate, 1e-8))
            run.sample()
    except Exception as error:
        run.fail(error)


def _warm(run: _Run) -> float:
    """The shortest of two samples and more, until the warm-up is long enough."""
    begin, times = _clock(), list[float]()
    while len(times) < 2 or (_clock() - begin) * 1e-9 < WARM_SECONDS:
        times.append(run.sample())
    return min(times)


def _resting(run: _Run, runs: Mapping[str, _Run]) -> bool:
    """Clearly too slow to win: its time is better spent on the others."""
    if len(run.taken) < MIN_SAMPLES:
        return False
    best = min(median(r.times) for r in runs.values() if r.times)
    return min(run.times) > SLOW * best


def _settled(active: Sequence[_Run]) -> bool:
    """Whether the fastest is known: it beats every other one beyond the noise, tightly."""
    timed = [run.samples() for run in active if run.status == "ok"]
    if not timed:
        return True
    best = min(timed, key=lambda s: s.time)
    others = [s for s in timed if s is not best]
    tight = best.spread < 0.02 or len(best.times) >= 3 * SETTLED_ROUNDS
    if len(best.times) < SETTLED_ROUNDS:
        return False
    return tight and all(significantly_faster(best, other) for other in others)


def _known(active: Sequence[_Run]) -> bool:
    """Whether it is decided of each of them if it is slower than the fastest by more than a tie."""
    timed = [run.samples() for run in active if run.times]
    best = min(timed, key=lambda s: s.time, default=None)
    return best is None or all(decided(best, other) for other in timed if other is not best)


# --- cold caches -------------------------------------------------------------------------------


class Flusher:
    """Streams through a buffer of twice the last-level cache, so that nothing else is left in it.

    Args:
        cache_bytes: size of the last-level cache [B]. The buffer is allocated at the first call.
    """

    def __init__(self, cache_bytes: int) -> None:
        self.nbytes = 2 * max(cache_bytes, 1 << 20)
        self._buffer: Any = None

    def __call__(self) -> None:
        """Read the whole buffer once."""
        if self._buffer is None:
            import numpy as np

            # Written once, so that it has pages of its own; then only read, so that the next
            # kernel does not pay for writing our lines back.
            self._buffer = np.ones(self.nbytes // 8, dtype=np.uint64)
        self._buffer.sum()


def rotation(bytes_per_call: int, cache_bytes: int) -> int:
    """How many argument sets make every call cold: twice the cache passes between two uses."""
    return 1 + max(1, math.ceil(2 * cache_bytes / max(bytes_per_call, 1)))
