from __future__ import annotations

import gc
import itertools
import math
import statistics
import time

import numpy as np
import pytest

from portable import measure as m
from portable.measure import Flusher, Samples, compare, fastest, measure, significantly_faster
from tests.fakes import Clock, spin


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(m, "_clock", made)
    monkeypatch.setattr(m, "_switches", lambda: 0)
    return made


def samples(times, rounds=None, **changes):
    return Samples(tuple(times), tuple(rounds or range(len(times))), **changes)


def test_candidates_are_timed_in_the_order_given_with_their_medians(clock):
    slower = itertools.cycle([2e-3, 2.1e-3, 2.3e-3, 2.2e-3, 2.5e-3])
    calls = {"slow": lambda: clock.spin(next(slower)), "fast": lambda: clock.spin(1e-3)}
    found = measure(calls, budget=0.5, max_samples=31)
    assert list(found) == ["slow", "fast"]
    assert (min(found["fast"].times), max(found["fast"].times)) == pytest.approx((1e-3, 1e-3))
    assert (min(found["slow"].times), max(found["slow"].times)) == pytest.approx((2e-3, 2.5e-3))
    assert found["slow"].time == pytest.approx(statistics.median(found["slow"].times))
    assert sorted(set(found["fast"].rounds)) == list(found["fast"].rounds)
    assert (found["fast"].cache, found["fast"].method, found["fast"].inner) == ("warm", "wall", 1)
    assert fastest(found) == "fast"


def test_the_systems_clock_is_read():
    found = measure({"x": lambda: spin(1e-3)}, max_samples=5)["x"]
    assert min(found.times) >= 1e-3


def test_rounds_are_interleaved_in_changing_order_with_an_untimed_call_before_each_sample(
    monkeypatch,
):
    monkeypatch.setattr(m, "_switches", lambda: 0)
    monkeypatch.setattr(m, "PREPARED", 1e9)
    monkeypatch.setattr(m, "IN_STRIDE", 1e9)  # one untimed call is enough
    log = []
    measure(
        {"a": lambda: (spin(2e-4), log.append("a")), "b": lambda: (spin(2e-4), log.append("b"))},
        max_samples=14, min_samples=14, budget=60.0,
    )  # fmt: skip
    timed = "".join(log[-4 * 14 :])
    rounds = {timed[i : i + 4] for i in range(0, len(timed), 4)}
    assert rounds == {"aabb", "bbaa"}


def test_a_candidate_is_timed_in_its_stride_however_long_the_one_before_lingers(clock):
    """b's threads spin on: a's first two calls after b take twenty times as long."""
    lingering = []

    def a():
        clock.spin(2e-2 if lingering else 1e-3)
        if lingering:
            lingering.pop()

    def b():
        clock.spin(1e-3)
        lingering[:] = [1, 1]

    found = measure({"a": a, "b": b}, budget=2.0, max_samples=11)
    assert found["a"].times == pytest.approx([1e-3] * 11)


def scripted(monkeypatch, switches):
    """Samples of one candidate, with the context switches that the system is said to count."""
    counts = iter([n for total in accumulated(switches) for n in total])
    monkeypatch.setattr(m, "_switches", lambda: next(counts))
    times = iter([1.0] * 4 + [1.0 + i for i in range(len(switches))])
    run = m._Run(lambda: None, [()], m._Cursor(), None, None)
    monkeypatch.setattr(m._Run, "sample", lambda self: next(times))
    for _ in range(4):
        run.sample()  # as the warm-up does
    for round_ in range(len(switches)):
        run.guarded(round_)
    return run.samples()


def accumulated(switches):
    total = 0
    for n in switches:
        yield total, total + n
        total += n


def test_samples_disturbed_by_the_system_are_left_out_and_counted(monkeypatch):
    found = scripted(monkeypatch, [0, 2, 0, 0, 7, 0])
    assert found.times == (1.0, 3.0, 4.0, 6.0)
    assert found.rounds == (0, 2, 3, 5)
    assert found.disturbed == 2


def test_on_a_busy_machine_the_least_disturbed_samples_count(monkeypatch):
    found = scripted(monkeypatch, [9, 1, 8, 0, 7, 2, 9, 9, 9])
    assert found.rounds == (1, 3, 5)
    assert found.disturbed == 6
    assert scripted(monkeypatch, [3, 3, 3]).disturbed == 0


def test_a_real_preemption_is_seen():
    """Another process on the same core takes the processor away; the count must grow."""
    import os
    import subprocess
    import sys

    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("needs Linux")
    allowed = os.sched_getaffinity(0)
    core = {min(allowed)}
    rival = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(rival.pid, core)
        os.sched_setaffinity(0, core)
        before = m._switches()
        for _ in range(100):  # the other process takes its time to start
            spin(0.1)
            if m._switches() > before:
                break
        assert m._switches() > before
    finally:
        os.sched_setaffinity(0, allowed)
        rival.kill()
        rival.wait()


def test_short_calls_are_repeated_inside_a_sample(clock):
    found = measure({"short": lambda: clock.spin(1e-7)}, budget=0.2, max_samples=20)["short"]
    assert found.inner == 1000
    assert found.time == pytest.approx(1e-7)


def test_a_candidate_that_raises_ends_alone(clock):
    def later():
        later.calls += 1
        if later.calls > 6:
            raise RuntimeError("CUDA out of memory")

    later.calls = 0
    good = lambda: clock.spin(2e-4)  # noqa: E731
    found = measure({"bad": lambda: 1 / 0, "good": good, "later": lambda: (good(), later())})
    assert (found["bad"].status, found["bad"].times) == ("exception", ())
    assert "ZeroDivisionError" in found["bad"].reason
    assert found["bad"].time == math.inf
    assert found["later"].status == "oom"
    assert len(found["good"].times) >= 5
    assert fastest(found) == "good"
    assert fastest({"bad": found["bad"]}) is None


def test_the_time_box_holds_but_everybody_gets_a_sample(clock):
    """A round takes half of the box (every sample has an untimed call before it), all 101 of them
    fifty times the box; before them, three slow calls and 70 ms of fast ones warm up."""
    calls = {"slow": lambda: clock.spin(0.05), "fast": lambda: clock.spin(1e-3)}
    found = measure(calls, budget=0.25)
    assert clock.now * 1e-9 < 3 * 0.05 + 0.1 + 0.25
    assert len(found["slow"].times) == 2
    tiny = measure({"x": lambda: clock.spin(0.02)}, budget=1e-6)
    assert len(tiny["x"].times) == 1


@pytest.mark.parametrize(
    ("slower", "least", "most"),
    [
        (1.2, 8, 8),  # known as soon as eight pairs tell
        (1.0, 8, 8),  # known to be a tie
        (1.03, 30, 65),  # at the border of a tie it stays open for long
    ],
)
def test_overtime_is_for_what_is_open_only(clock, slower, least, most):
    """Rounds of 4 to 4.4 ms (every sample has an untimed call before it) in a box of one round."""
    noise = itertools.cycle([0.98, 1.02, 1.0])

    def rival():
        rival.calls += 1
        if rival.calls % 2:  # a sample is what its untimed call was
            rival.now = 1e-3 * slower * next(noise)
        clock.spin(rival.now)

    rival.calls = 0
    calls = {"a": lambda: clock.spin(1e-3), "b": rival}
    assert len(measure(calls, budget=4e-3)["b"].times) == 1
    found = measure(calls, budget=4e-3, overtime=0.25)["b"]
    assert least <= len(found.times) <= most


def test_a_candidate_that_cannot_win_rests(clock):
    calls = {"slow": lambda: clock.spin(5e-3), "fast": lambda: clock.spin(2e-4)}
    found = measure(calls, budget=1.0)
    assert len(found["slow"].times) == m.MIN_SAMPLES
    assert len(found["fast"].times) > 2 * m.MIN_SAMPLES


def test_arguments_rotate_over_all_candidates():
    """The set one candidate has used is warm: the next sample, of whichever, takes the next set."""
    log = []
    sets = [(i,) for i in range(5)]
    measure(
        {"a": lambda x: (log.append(x), spin(2e-4)), "b": lambda x: (log.append(x), spin(2e-4))},
        arguments=sets, cache="cold", min_samples=6, max_samples=6, budget=5.0,
    )  # fmt: skip
    assert log == [i % 5 for i in range(len(log))]
    assert len(log) >= 12


def test_arguments_may_differ_by_candidate():
    seen = {"a": set(), "b": set()}
    measure(
        {"a": lambda x: (seen["a"].add(x), spin(2e-4)), "b": lambda x: seen["b"].add(x)},
        arguments={"a": [(1,), (2,), (3,)], "b": [(9,)]}, max_samples=9, budget=5.0,
    )  # fmt: skip
    assert seen == {"a": {1, 2, 3}, "b": {9}}


def test_flush_runs_before_every_sample_and_outside_of_it(clock):
    calls = []
    found = measure(
        {"x": lambda: (calls.append("call"), clock.spin(1e-5))}, cache="cold",
        flush=lambda: (calls.append("f"), clock.spin(2e-3)),
        max_samples=8, min_samples=8, budget=5.0,
    )["x"]  # fmt: skip
    assert found.cache == "cold"
    assert found.inner == 1
    assert found.time == pytest.approx(1e-5)
    assert calls[-16:] == ["f", "call"] * 8


def test_synchronize_is_waited_for_and_timed():
    pending = []
    found = measure(
        {"async": lambda: pending.append(1), "plain": lambda: spin(2e-4)},
        synchronize={"async": lambda: (pending and spin(1e-3), pending.clear())},
        max_samples=7, budget=5.0,
    )  # fmt: skip
    assert found["async"].time * found["async"].inner >= 1e-3


def test_a_device_timer_is_believed_and_named():
    def timer(call):
        call()
        return 42.0

    found = measure(
        {"event": lambda: spin(2e-4), "wall": lambda: spin(2e-4)},
        timers={"event": timer}, method="event", max_samples=5, budget=5.0,
    )  # fmt: skip
    assert found["event"].time * found["event"].inner == pytest.approx(42.0)
    assert (found["event"].method, found["wall"].method) == ("event", "wall")


def test_a_patched_clock_changes_nothing(monkeypatch):
    def cheat():
        monkeypatch.setattr(time, "perf_counter_ns", lambda: 0)
        monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
        sum(range(20_000))

    found = measure({"cheat": cheat}, max_samples=5, budget=5.0)["cheat"]
    assert found.time > 1e-5


def test_garbage_collection_is_off_only_while_measuring():
    states = []
    measure({"x": lambda: (states.append(gc.isenabled()), spin(2e-4))}, max_samples=5)
    assert states[-1] is False
    assert gc.isenabled()


def test_progress_is_told():
    told = []
    measure(
        {"x": lambda: spin(2e-4)}, max_samples=5, budget=5.0, progress=lambda *a: told.append(a)
    )
    assert told[:5] == [(i, 5) for i in range(1, 6)]
    assert set(told[5:]) <= {(5, 5)}, "further rounds make up for disturbed samples"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cache": "hot"}, "cache is 'hot'"),
        ({"budget": 0}, "budget is 0 s"),
        ({"min_samples": 9, "max_samples": 3}, "samples are 9 to 3"),
        ({"arguments": []}, "no argument set"),
        ({"cache": "cold"}, "second call would be warm"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        measure({"x": lambda: None}, **wrong)


def test_comparison_is_paired_by_round():
    drift = [1.0, 5.0, 2.0, 9.0, 3.0, 7.0, 4.0, 8.0]  # the machine's mood, common to both
    a, b = samples(drift), samples([1.1 * t for t in drift])
    found = compare(a, b)
    assert found.ratio == pytest.approx(1.1)
    assert (found.low, found.high) == (pytest.approx(1.1), pytest.approx(1.1))
    assert significantly_faster(a, b)
    assert not significantly_faster(b, a)
    few = compare(a, samples([2.0, 4.0], rounds=[2, 6]))
    assert few.pairs == 0, "too few rounds in common: the medians are compared"
    assert few.ratio == pytest.approx(3.0 / 4.5)
    assert few.confidence < 0.95


def test_noise_and_small_margins_are_ties():
    rng = np.random.default_rng(0)
    a, b = samples(rng.normal(1.0, 0.1, 50)), samples(rng.normal(1.0, 0.1, 50))
    assert not significantly_faster(a, b)
    assert not significantly_faster(b, a)
    close = samples([1.01 * t for t in a.times])
    assert compare(a, close).low > 1.0
    assert not significantly_faster(a, close), "1 % is not worth a switch"
    assert significantly_faster(a, close, margin=0.005)


def test_few_samples_need_a_large_difference():
    three = samples([1.0, 1.0, 1.0])
    assert not significantly_faster(three, samples([1.5, 1.5, 1.5]))
    assert significantly_faster(three, samples([2.5, 2.5, 2.5]))
    assert compare(three, samples([2.0] * 3)).confidence < 0.95


def test_the_interval_covers_the_median_as_often_as_it_says():
    rng = np.random.default_rng(1)
    hits, rounds = 0, 400
    for _ in range(rounds):
        found = compare(samples(np.ones(21)), samples(np.exp(rng.normal(0.0, 0.3, 21))))
        hits += found.low <= 1.0 <= found.high
        assert found.confidence >= 0.95
    assert hits / rounds > 0.92


def test_without_common_rounds_the_medians_are_compared():
    rng = np.random.default_rng(2)
    a = samples(rng.normal(1.0, 0.02, 15), rounds=range(15))
    b = samples(rng.normal(1.2, 0.02, 15), rounds=range(20, 35))
    found = compare(a, b)
    assert found.pairs == 0
    assert found.confidence >= 0.95
    assert found.low < 1.2 < found.high
    assert significantly_faster(a, b)
    assert not significantly_faster(b, a)
    hits = 0
    for _ in range(300):
        x, y = (samples(np.exp(rng.normal(0, 0.3, 15)), rounds=range(i, i + 15)) for i in (0, 50))
        result = compare(x, y)
        hits += result.low <= 1.0 <= result.high
    assert hits / 300 > 0.95


def test_missing_samples_lose():
    empty, full = samples([], status="exception"), samples([1.0] * 9)
    assert significantly_faster(full, empty)
    assert not significantly_faster(empty, full)
    assert compare(empty, empty).ratio == 1.0
    assert compare(samples([1.0], rounds=[1]), samples([2.0], rounds=[2])).pairs == 0


def test_ties_go_to_the_safer_candidate():
    a, b = samples([1.0] * 9), samples([0.999] * 9)
    slow = samples([2.0] * 9)
    times = {"risky": b, "safe": a, "slow": slow}
    assert fastest(times, ["safe", "risky", "slow"]) == "safe"
    assert fastest(times, ["slow", "risky"]) == "risky"
    assert fastest(times) == "risky"


def test_rotation_exceeds_the_cache_between_two_uses_of_a_set():
    for nbytes, cache in [(1 << 20, 32 << 20), (100 << 20, 32 << 20), (1, 1 << 10), (0, 1 << 10)]:
        count = m.rotation(nbytes, cache)
        assert count >= 2
        assert (count - 1) * max(nbytes, 1) >= 2 * cache


def test_cold_is_colder_than_warm():
    """A sum over 1 MiB: in the cache, and after 64 MiB have passed through it."""
    x = np.ones(1 << 17)
    x.sum()
    flush, warm, cold = Flusher(32 << 20), [], []
    for _ in range(3):  # what disturbs one of them seldom disturbs all three
        warm += measure({"sum": x.sum}, max_samples=15, budget=1.0)["sum"].times
        flushed = measure({"sum": x.sum}, cache="cold", flush=flush, max_samples=9, budget=2.0)
        cold += flushed["sum"].times
    assert min(cold) > 1.15 * min(warm)


def test_classify():
    assert m.classify(MemoryError()) == ("oom", "MemoryError:")
    assert m.classify(RuntimeError("std::bad_alloc"))[0] == "oom"
    assert m.classify(ValueError("x" * 5000)) == ("exception", ("ValueError: " + "x" * 5000)[:1000])
