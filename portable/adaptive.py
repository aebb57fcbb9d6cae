"""policy="adaptive": check beliefs in live calls, within a bounded share of time, and switch.

Between two checks a call runs on its plan as under "auto": nothing is counted, so nothing is paid.
When a check is due, a thread of its own puts a `Watch` in the plan's place; the next call is then
timed, alone or paired with a challenger on the same arrays, and the plan is put back. The caller
always gets the incumbent's result. Challengers are compiled, gated and warmed by that thread, which
also stores what was learned: records of both sides of a comparison, a few at a time.

`Beliefs` is the policy without clocks and threads; time comes in as numbers.
"""

from __future__ import annotations

import atexit
import heapq
import itertools
import math
import os
import statistics
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from portable import arrays, engine, filing, records, registry, selector, stages
from portable.records import Record
from portable.selector import Candidate
from portable.settings import Settings
from portable.stats import median

SHARE = 0.008
"""Share of the time since the first call that challengers and checks may take, builds included;
what is left of 1 % is for what cannot be seen from here (caches, the interpreter's lock)."""

FEW = 6.0
"""A deviation from n pairs is too small by chance now and then: widened by 1 + FEW / n."""

BUILD_SECONDS = 0.1
"""What a challenger's first build is expected to take; then, what the longest took."""

SAVE_SECONDS = 5.0
"""Least time between two writes of what was learned."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How cautious the policy is.

    Attributes:
        share: see SHARE.
        window: paired comparisons remembered per challenger.
        needed: of them before a switch.
        margin: a challenger must be faster by this share (median of the pairs) to take over,
        certainty: and that median must be this many of its standard errors away from a tie.
        drift: factor by which the incumbent's time must rise over its usual time to be suspect.
        credit: comparisons that a suspect incumbent may have on account.
        interval: least seconds between two checks of a plan,
        patience: and least multiple of what a check costs besides the incumbent's call.
        slowest: challengers expected to take this many times the incumbent are never tried.
    """

    share: float = SHARE
    window: int = 15
    needed: int = 8
    margin: float = 0.1
    certainty: float = 5.0
    drift: float = 1.4
    credit: int = 12
    interval: float = 0.01
    patience: float = 500.0
    slowest: float = 8.0


@dataclass(slots=True)
class Lesson:
    """Times [s] of an incumbent and a challenger in paired comparisons.

    Attributes:
        incumbent, challenger: their times.
        fresh: comparisons since the lesson was last stored.
    """

    incumbent: deque[float]
    challenger: deque[float]
    fresh: int = 0


class Beliefs:
    """What is believed of an incumbent and its challengers.

    Args:
        expected: expected time [s] by name; the first is the incumbent.
        now: time of the first call [s].
        rules: how cautious to be.
    """

    def __init__(
        self, expected: Mapping[str, float], now: float, rules: Rules | None = None
    ) -> None:
        self.rules = rules or Rules()
        self.incumbent = next(iter(expected))
        limit = self.rules.slowest * expected[self.incumbent]
        self.cost = {n: t for n, t in expected.items() if t <= limit or n == self.incumbent}
        self.started, self.spent = now, 0.0
        self.switches: list[tuple[float, str]] = []
        self.lessons: dict[tuple[str, str], Lesson] = {}
        """By (incumbent, challenger): their times in the comparisons remembered."""
        self._pairs: dict[str, deque[float]] = {}
        self._usual: deque[float] = deque(maxlen=31)
        self._recent: deque[float] = deque(maxlen=3)
        self._credit = 0
        self._turns = dict.fromkeys(self.cost, 0.0)

    @property
    def suspect(self) -> bool:
        """Whether the incumbent has become slower than it was."""
        if len(self._usual) < 8 or len(self._recent) < 3:
            return False
        return min(self._recent) > self.rules.drift * median(tuple(self._usual))

    def challenger(self, now: float, builds: Mapping[str, float] | None = None) -> str | None:
        """Who is to be compared with the incumbent now; None when nobody or not yet.

        Args:
            now: [s].
            builds: what the build of a challenger not yet built is expected to take [s].
        """
        others = [name for name in self.cost if name != self.incumbent]
        if not others:
            return None
        name = min(others, key=lambda n: self._turns[n])
        allowed = self.rules.share * (now - self.started) - self.spent
        if self.cost[name] + (builds or {}).get(name, 0.0) <= allowed:
            return name
        if self.suspect and self._credit < self.rules.credit:
            self._credit += 1
            return name
        return None

    def charge(self, seconds: float) -> None:
        """A challenger's build, or a check but for the calls in it, took this long."""
        self.spent += seconds

    def alone(self, seconds: float) -> None:
        """The incumbent was timed."""
        if len(self._recent) == self._recent.maxlen and not self.suspect:
            self._usual.append(self._recent[0])
            self._credit = 0
        self._recent.append(seconds)
        self.cost[self.incumbent] = seconds

    def pair(self, name: str, incumbent: float, challenger: float, now: float) -> bool:
        """Both were timed on the same arrays; True when the challenger takes over."""
        self.alone(incumbent)
        self.spent += challenger
        self.cost[name] = challenger
        ratio = math.log(challenger / incumbent)
        seen = self._pairs.setdefault(name, deque(maxlen=self.rules.window))
        seen.append(ratio)
        self._remember(name, incumbent, challenger)
        # Who is far behind is asked less often: once per factor that it is slower.
        self._turns[name] += max(1.0, min(math.exp(median(tuple(seen))), 64.0))
        if not self._better(seen):
            return False
        self.incumbent = name
        self.switches.append((now, name))
        self._pairs.clear()
        self._usual.clear()
        self._recent.clear()
        self._turns = dict.fromkeys(self.cost, 0.0)
        return True

    def _remember(self, name: str, incumbent: float, challenger: float) -> None:
        key = (self.incumbent, name)
        if key not in self.lessons:
            window = self.rules.window
            self.lessons[key] = Lesson(deque(maxlen=window), deque(maxlen=window))
        lesson = self.lessons[key]
        lesson.incumbent.append(incumbent)
        lesson.challenger.append(challenger)
        lesson.fresh += 1

    def _better(self, ratios: Sequence[float]) -> bool:
        """Whether the challenger's lead is worth a switch and beyond the noise."""
        if len(ratios) < self.rules.needed:
            return False
        lead = -statistics.median(ratios)
        # Standard error of a median, from the median deviation: a call that was interrupted
        # must not count for more than its place in the order.
        deviation = 1.4826 * statistics.median(abs(r + lead) for r in ratios)
        error = max(1.2533 * deviation, 0.02) / math.sqrt(len(ratios))
        error *= 1 + FEW / len(ratios)
        return lead > math.log1p(self.rules.margin) and lead > self.rules.certainty * error

    def drop(self, name: str) -> None:
        """A challenger failed: never again."""
        self.cost.pop(name, None)
        self._turns.pop(name, None)


class Watch:
    """One plan under the adaptive policy."""

    def __init__(self, built: engine.Plan, settings: Settings, key: Any) -> None:
        self.built, self.settings, self.key = built, settings, key
        self.run = built.run
        self._ways: dict[str, engine.Run] = {built.choice.candidate.name: built.run}
        self._by_name = {c.name: c for c in built.choice.candidates}
        expected = {
            c.name: c.estimate.time for c in built.choice.candidates if c.estimate is not None
        }
        self.beliefs = Beliefs(expected, time.monotonic())
        self._waiters = {n: _waiter(c, built) for n, c in self._by_name.items()}
        self._lock = threading.Lock()
        self._wanted: str | None = None
        self._turn = itertools.count()
        self._overhead = self._inside = 0.0
        """[s] that this check took besides calls; that calls took in it."""

    def __call__(self, *arrays: Any) -> Any:
        """A call that is timed; then calls go straight to the plan again."""
        if not self._lock.acquire(blocking=False):
            return self.run(*arrays)
        start, self._inside = time.perf_counter(), 0.0
        try:
            self._disarm()
            unbuilt = dict.fromkeys(self._by_name.keys() - self._ways.keys(), longest_build())
            name = self.beliefs.challenger(time.monotonic(), unbuilt)
            if name is not None and name not in self._ways:
                self._wanted, name = name, None  # the watching thread builds it
            return self._alone(arrays) if name is None else self._paired(name, arrays)
        finally:
            self._overhead += time.perf_counter() - start - self._inside
            self.beliefs.charge(self._overhead)
            wait = max(self.beliefs.rules.interval, self.beliefs.rules.patience * self._overhead)
            self._overhead = 0.0
            self._lock.release()
            _schedule(self, time.monotonic() + wait)

    def _alone(self, arrays: tuple[Any, ...]) -> Any:
        result, seconds = self._timed(self.beliefs.incumbent, arrays)
        self.beliefs.alone(seconds)
        return result

    def _paired(self, name: str, arrays: tuple[Any, ...]) -> Any:
        incumbent = self.beliefs.incumbent
        first = next(self._turn) % 2 == 0  # who runs second meets warm caches
        theirs = math.inf
        if not first:
            theirs = self._try(name, arrays)
        result, mine = self._timed(incumbent, arrays)
        if first:
            theirs = self._try(name, arrays)
        if math.isfinite(theirs) and self.beliefs.pair(name, mine, theirs, time.monotonic()):
            self._switch(name)
        return result

    def _try(self, name: str, arrays: tuple[Any, ...]) -> float:
        try:
            return self._timed(name, arrays)[1]
        except Exception as error:
            self._fail(name, error)
            return math.inf

    def _timed(self, name: str, arrays: tuple[Any, ...]) -> tuple[Any, float]:
        run, wait = self._ways[name], self._waiters[name]
        start = time.perf_counter()
        result = run(*arrays)
        if wait is not None:
            wait(result)
        seconds = max(time.perf_counter() - start, 1e-9)
        self._inside += seconds
        return result, seconds

    def _fail(self, name: str, error: Exception) -> None:
        self.beliefs.drop(name)
        self._ways.pop(name, None)
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        selector.set_aside(self._by_name[name], self.built.choice.problem, reason)

    def _switch(self, name: str) -> None:
        """The challenger runs the plan from now on."""
        before = self.run
        self.run = self._ways[name]
        choice = replace(self.built.choice, candidate=self._by_name[name], basis="adaptive")
        self.built = replace(self.built, choice=choice, run=self.run)
        if self.settings.plans.get(self.key) is before:
            engine.replace_plan(self.settings, self.key, self.built)

    # --- called by the watching thread ----------------------------------------------------------

    def arm(self) -> bool:
        """Let the next call be timed; False when the plan is gone, or the program ends."""
        plans = self.settings.plans
        if plans.get(self.key) is not self.run:
            return False
        if self._wanted is not None:
            name, self._wanted = self._wanted, None
            if not _in_builder(self._build, name):
                return False
        start = time.perf_counter()
        plans[self.key] = self
        self._overhead = time.perf_counter() - start + WAKE_SECONDS
        return True

    def _disarm(self) -> None:
        plans: Any = self.settings.plans
        if plans.get(self.key) is self:
            plans[self.key] = self.run

    def _build(self, name: str) -> None:
        start = time.monotonic()
        candidate, choice = self._by_name[name], self.built.choice
        try:
            kernel = selector.build(registry.op(choice.problem.op), choice.problem, candidate)
            run = engine.finish(kernel, candidate, self.built.inputs)
            _warm(run, self.built)
            self._ways[name] = run
        except Exception as error:
            self._fail(name, error)
        took = time.monotonic() - start
        _builds.append(took)
        self.beliefs.charge(took)

    def learned(self, last: bool = False) -> list[Record]:
        """Records of what was learned since the last time: of both sides of every pair with a
        switch, or with as many new comparisons as a window holds (as a switch needs, at the end).
        """
        if self.built.inputs.family.name != arrays.host_of(self.built.inputs.device).name:
            return []  # records are of calls with the device's own kind of arrays
        rules, found = self.beliefs.rules, []
        for (incumbent, challenger), lesson in list(self.beliefs.lessons.items()):
            switched = incumbent != self.beliefs.incumbent and lesson.fresh > 0
            if not switched and lesson.fresh < (rules.needed if last else rules.window):
                continue
            if len(lesson.incumbent) < rules.needed:
                continue
            lesson.fresh = -STORED_ENOUGH * rules.window  # one record says it for a good while
            found.append(self._record(incumbent, tuple(lesson.incumbent)))
            found.append(self._record(challenger, tuple(lesson.challenger)))
        return found

    def _record(self, name: str, times: tuple[float, ...]) -> Record:
        blank = filing.blank(self.built.choice.problem, self._by_name[name], "skipped")
        details = {**blank.details, "source": "adaptive"}
        return replace(
            blank, status="ok", samples=times, cache="warm", method="live", details=details
        )


def _warm(run: engine.Run, built: engine.Plan) -> None:
    """First calls compile and allocate: not inside of a user's call."""
    from portable import cases

    family, device = built.inputs.family, built.inputs.device
    made = iter([family.from_host(a, device) for a in cases.problem_arrays(built.choice.problem)])
    arrays = [next(made) if spec is not None else None for spec in built.inputs.specs]
    for _ in range(2):
        run(*arrays)


def _waiter(candidate: Candidate, built: engine.Plan) -> Callable[[Any], None] | None:
    """How to wait for a result; None where the call returns when it is done."""
    if candidate.device.id == "cpu" and built.inputs.family.name == "numpy":
        return None
    return stages.waiter(candidate)


_builds: list[float] = []


def longest_build() -> float:
    """What the next build of a challenger may take [s]."""
    return max(_builds, default=BUILD_SECONDS)


def watch(built: engine.Plan, settings: Settings, key: Any) -> None:
    """Put a plan under the adaptive policy."""
    if len(built.choice.candidates) > 1 and not built.inputs.constraints:
        found = Watch(built, settings, key)
        with _wake:
            _watched.add(found)
        _schedule(found, time.monotonic() + found.beliefs.rules.interval)


# --- the watching thread -------------------------------------------------------------------------

WAKE_SECONDS = 20e-6
"""What the watching thread's turn takes from the others beyond what it sees itself [s]: a guess,
twice the time that waking a thread takes; the bench shows what comes of it."""

STORED_ENOUGH = 9
"""Windows of comparisons after which a pair is stored again."""

CLOSE_SECONDS = 5.0
"""How long the end of the program waits for a write of what was learned."""

_due: list[tuple[float, int, Watch]] = []
_order = itertools.count()
_wake = threading.Condition()
_thread: threading.Thread | None = None
_builder: ThreadPoolExecutor | None = None
_closed = False
_watched: weakref.WeakSet[Watch] = weakref.WeakSet()


def _schedule(watched: Watch, when: float) -> None:
    global _thread
    with _wake:
        heapq.heappush(_due, (when, next(_order), watched))
        if _thread is None:
            _thread = threading.Thread(target=_serve, name="portable-adaptive", daemon=True)
            _thread.start()
        elif _due[0][2] is watched:
            _wake.notify()


def _serve() -> None:
    saved = time.monotonic()
    while (watched := _next_due()) is not None:
        if time.monotonic() - saved > SAVE_SECONDS:
            save()
            saved = time.monotonic()
        watched.arm()


def _next_due() -> Watch | None:
    """Waits until a check is due; None when the program ends."""
    with _wake:
        while not _closed and (not _due or _due[0][0] > time.monotonic()):
            _wake.wait(_due[0][0] - time.monotonic() if _due else None)
        return None if _closed else heapq.heappop(_due)[2]


def _in_builder(work: Callable[[str], None], name: str) -> bool:
    """Run in the pool's thread, which the interpreter waits for when the program ends: a compiler
    torn down in the middle of its work aborts the process. False when the program ends already.
    """
    global _builder
    if _builder is None:
        _builder = ThreadPoolExecutor(1, "portable-adaptive-build")
    try:
        job = _builder.submit(work, name)
    except RuntimeError:  # no new work at the end
        return False
    job.result()
    return True


def save(last: bool = False) -> int:
    """Store what was learned since the last time; how many records. Never raises: the store warns
    when it cannot write."""
    with _wake:
        everyone = list(_watched)
    found = [record for watched in everyone for record in watched.learned(last)]
    return records.default_store().add(found) if found else 0


def _close() -> None:
    """The end of the program: no more checks; what was learned is stored."""
    global _closed
    with _wake:
        _closed = True
        _wake.notify()
    if _thread is not None:
        _thread.join(CLOSE_SECONDS)
    save(last=True)


atexit.register(_close)


def _after_fork() -> None:
    """Threads do not survive a fork: the child's plans are watched from their next build on."""
    global _thread, _wake, _builder
    _thread, _wake, _builder = None, threading.Condition(), None
    _due.clear()
    _watched.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
