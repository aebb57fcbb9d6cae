"""Timing that can be compared: interleaved candidates, medians with spread, paired comparisons.

All candidates of one call are measured in rounds: every round times each of them once, in a new
random order. What disturbs the machine then disturbs all of them, and the ratio within a round says
more than two medians do.

`cache="warm"` repeats the same arguments. `cache="cold"` needs what makes it true: several argument
sets that together exceed the last-level cache (`rotation` says how many), or a `flush` that is
called before every sample (`Flusher`).
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

from portable.stats import median, quantile, relative_spread

# The clock as it was at import: code that is measured cannot replace it later.
_clock: Callable[[], int] = time.perf_counter_ns

Candidate = Callable[..., Any]
Timer = Callable[[Callable[[], Any]], float]
"""Runs the callable once and returns the seconds the device took: `backend.timer(device)`."""

SAMPLE_SECONDS = 100e-6
"""Shortest sample worth taking: faster calls are repeated inside one sample."""
MIN_SAMPLES = 5
MAX_SAMPLES = 101
SETTLED_ROUNDS = 15
"""Rounds before the measurement may end early."""
SLOW = 3.0
"""Candidates this many times slower than the best one rest after MIN_SAMPLES."""
TOO_MUCH_MEMORY = ("out of memory", "OUT_OF_MEMORY", "RESOURCE_EXHAUSTED", "bad_alloc")
"""Marks in the messages of libraries that have no exception type for it."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Timings of one candidate.

    Attributes:
        times: [s] per call, in the order taken.
        rounds: the round each of them is from, for pairing.
        inner: calls inside one sample.
        cache: "cold" or "warm".
        method: "wall" (host clock around call and synchronize) or the name of the device timer.
        first: [s] of the very first call: compilation, allocation, cold code.
        status: "ok", "exception" or "oom".
        reason: what was raised.
    """

    times: tuple[float, ...] = ()
    rounds: tuple[int, ...] = ()
    inner: int = 1
    cache: str = "warm"
    method: str = "wall"
    first: float = math.nan
    status: str = "ok"
    reason: str = ""

    @property
    def time(self) -> float:
        """Median [s]; infinite without samples."""
        return median(self.times) if self.times else math.inf

    @property
    def spread(self) -> float:
        """Half the interquartile range over the median."""
        return relative_spread(self.times)


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
    times: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    status: str = "ok"
    reason: str = ""

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
        try:
            self.times.append(self.sample())
            self.rounds.append(round_)
        except Exception as error:
            self.fail(error)

    def samples(self, cache: str = "warm", method: str = "wall") -> Samples:
        """What was measured so far."""
        return Samples(
            tuple(self.times), tuple(self.rounds), self.inner, cache, method,
            self.first, self.status, self.reason,
        )  # fmt: skip

    def fail(self, error: Exception) -> None:
        """Remember how it failed."""
        self.status, self.reason = classify(error)


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
        min_samples, max_samples: samples per candidate.
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
        _rounds(runs, flush, budget, min_samples, max_samples, seed, progress)
    return {
        name: run.samples(cache, method if run.timer is not None else "wall")
        for name, run in runs.items()
    }


def _rounds(
    runs: Mapping[str, _Run],
    flush: Callable[[], Any] | None,
    budget: float,
    min_samples: int,
    max_samples: int,
    seed: int,
    progress: Callable[[int, int], Any] | None,
) -> None:
    order = random.Random(seed)
    started = last = _clock()
    for round_ in range(max_samples):
        active = [run for run in runs.values() if run.status == "ok" and not _resting(run, runs)]
        now = _clock()
        # Out of time when a round like the last one would end late.
        if not active or (round_ and now + (now - last) - started > budget * 1e9):
            return
        last = now
        order.shuffle(active)
        for run in active:
            if flush is not None:
                flush()
            run.guarded(round_)
        if progress is not None:
            progress(round_ + 1, max_samples)
        done = round_ + 1
        if done >= max(min_samples, SETTLED_ROUNDS) and done % 5 == 0 and _settled(active):
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
        estimate = min(run.sample() for _ in range(2))
        if flush is None and estimate < SAMPLE_SECONDS:
            run.inner = math.ceil(SAMPLE_SECONDS / max(estimate, 1e-8))
            run.sample()
    except Exception as error:
        run.fail(error)


def _resting(run: _Run, runs: Mapping[str, _Run]) -> bool:
    """Clearly too slow to win: its time is better spent on the others."""
    if len(run.times) < MIN_SAMPLES:
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
    return tight and all(significantly_faster(best, other) for other in others)


# --- comparing ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """How much longer b takes than a.

    Attributes:
        ratio: median of time(b) / time(a), paired by round where there are rounds in common.
        low, high: confidence interval of that median.
        pairs: number of ratios.
        confidence: of the interval, as reached: at least what was asked, or less when there are
            too few pairs for it.
    """

    ratio: float
    low: float
    high: float
    pairs: int
    confidence: float


def compare(a: Samples, b: Samples, confidence: float = 0.95) -> Comparison:
    """The ratio time(b) / time(a) with a distribution-free confidence interval.

    The interval's ends are order statistics of the paired ratios (the sign test, inverted): no
    assumption about the noise, no random numbers, so the same samples give the same answer.
    A side without samples counts as infinitely slow.
    """
    if not a.times or not b.times:
        ratio = math.inf if a.times else (0.0 if b.times else 1.0)
        return Comparison(ratio, ratio, ratio, 0, 1.0)
    partner = dict(zip(b.rounds, b.times, strict=True))
    ratios = sorted(
        partner[r] / t if t > 0 else math.inf
        for r, t in zip(a.rounds, a.times, strict=True)
        if r in partner
    )
    if not ratios:
        ratio = b.time / a.time if a.time > 0 else math.inf
        return Comparison(ratio, 0.0, math.inf, 0, 1.0)
    rank, reached = _interval(len(ratios), confidence)
    return Comparison(quantile(ratios, 0.5), ratios[rank], ratios[-1 - rank], len(ratios), reached)


def _interval(count: int, confidence: float) -> tuple[int, float]:
    """(rank k, its confidence): the median lies between the k-th smallest and k-th largest.

    P(median outside) = 2 P(Binomial(count, 1/2) <= k).
    """
    outside, rank, reached = 0.0, 0, 1.0 - 2.0 ** (1 - count)
    for k in range((count + 1) // 2):
        outside += 2 * math.comb(count, k) / 2.0**count
        if 1 - outside < confidence:
            break
        rank, reached = k, 1 - outside
    return rank, reached


def significantly_faster(
    a: Samples, b: Samples, confidence: float = 0.95, margin: float = 0.02
) -> bool:
    """Whether a beats b beyond the noise.

    True when the whole confidence interval of time(b) / time(a) lies above 1 and the median ratio
    is at least 1 + margin. Too few pairs to reach the confidence (fewer than 6 for 0.95) is a tie,
    unless a is more than twice as fast in every pair.
    """
    result = compare(a, b, confidence)
    if result.pairs and result.confidence < confidence:
        return result.low > 2.0
    return result.low > 1.0 and result.ratio >= 1.0 + margin


def fastest(
    samples: Mapping[str, Samples], order: Sequence[str] = (), confidence: float = 0.95
) -> str | None:
    """The fastest candidate; among those it does not beat beyond the noise, the first in `order`.

    `order` lists names from the safest on; names that are missing come last, in mapping order.
    None when nothing was timed.
    """
    timed = {name: s for name, s in samples.items() if s.status == "ok" and s.times}
    if not timed:
        return None
    best = min(timed, key=lambda name: timed[name].time)
    ranks = {name: i for i, name in enumerate([*order, *(n for n in timed if n not in order)])}
    ties = [
        n for n in timed if n == best or not significantly_faster(timed[best], timed[n], confidence)
    ]
    return min(ties, key=lambda name: ranks[name])


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
