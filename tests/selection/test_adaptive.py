"""policy="adaptive": by simulation with changing load, and on backends slowed down on purpose."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import portable
from portable import adaptive, engine
from portable.adaptive import Beliefs, Rules
from tests.fakes import Fake, FakeBackend, right_matmul, spin


@pytest.fixture(autouse=True)
def _fresh(own_store):
    """Records and failures of one test must not choose for another."""
    from portable import selector

    yield
    selector.heal()


def simulate(speeds, until, *, noise, seed=0, expected=None, rules=None):
    """Calls back to back; `speeds` maps a name to its time at a moment.

    Returns the beliefs, the time lost to comparisons, and the time of calls over that of an
    oracle that always knew the faster one.
    """
    rng = random.Random(seed)
    rules = rules or Rules()
    beliefs = Beliefs(expected or {n: f(0.0) for n, f in speeds.items()}, 0.0, rules)
    now = spent = best = extra = 0.0
    due = rules.interval
    while now < until:
        draw = {n: f(now) * math.exp(rng.gauss(0.0, noise)) for n, f in speeds.items()}
        mine = draw[beliefs.incumbent]
        if now >= due:
            due = now + rules.interval
            name = beliefs.challenger(now)
            if name is None:
                beliefs.alone(mine)
            else:
                extra += draw[name]
                now += draw[name]
                beliefs.pair(name, mine, draw[name], now)
        now += mine
        spent += mine
        best += min(f(now) for f in speeds.values())
    return beliefs, extra, spent / best


def test_changing_load_is_followed_within_the_share():
    """a is loaded between 100 s and 200 s: two switches, little regret, one per cent spent."""
    speeds = {
        "a": lambda t: 3e-3 if 100 < t < 200 else 1e-3,
        "b": lambda t: 1.4e-3,
    }
    for seed in range(2):
        beliefs, extra, regret = simulate(speeds, 300.0, noise=0.1, seed=seed)
        assert [name for _, name in beliefs.switches] == ["b", "a"]
        when = [at for at, _ in beliefs.switches]
        assert 100 < when[0] < 105
        assert 200 < when[1] < 215
        assert extra <= 0.011 * 300
        assert regret < 1.05


def test_equal_candidates_do_not_flip_in_noise():
    for seed in range(3):
        speeds = {"a": lambda t: 1e-2, "b": lambda t: 1e-2, "c": lambda t: 1.02e-2}
        beliefs, extra, _ = simulate(speeds, 1000.0, noise=0.3, seed=seed)
        assert len(beliefs.switches) <= 1
        assert extra <= 0.011 * 1000


def test_a_wrong_belief_is_corrected():
    """The estimate said a; b is three times as fast; c is ten times slower than said."""
    speeds = {"a": lambda t: 3e-3, "b": lambda t: 1e-3, "c": lambda t: 2e-2}
    expected = {"a": 1e-3, "b": 1.1e-3, "c": 2e-3}
    beliefs, extra, _ = simulate(speeds, 60.0, noise=0.1, expected=expected)
    assert beliefs.incumbent == "b"
    assert beliefs.switches[0][0] < 10
    assert extra <= 0.01 * 60 + 2e-2


def test_who_is_hopeless_is_never_tried():
    beliefs = Beliefs({"a": 1e-3, "slow": 9e-3}, 0.0)
    assert all(beliefs.challenger(now) is None for now in (1.0, 1e3, 1e6))


def test_a_failing_challenger_is_dropped():
    beliefs = Beliefs({"a": 1e-3, "b": 1e-3}, 0.0)
    assert beliefs.challenger(10.0) == "b"
    beliefs.drop("b")
    assert beliefs.challenger(10.0) is None


@pytest.fixture
def rivals(backend):
    """Two backends whose time per call the test sets; quick expects to be chosen."""
    delay = {"quick": 0.0, "steady": 1e-3}

    def made(name):
        def run(problem, a, b):
            spin(delay[name])
            return right_matmul(problem, a, b)

        return Fake(run)

    for name in delay:
        backend(FakeBackend(name, {"matmul": made(name)}, priority=1000))
    return delay


def test_a_slowed_backend_is_left_and_taken_back_when_it_recovers(rivals, monkeypatch):
    """A real run: quick is slowed down while it serves, then recovers."""
    monkeypatch.setattr(adaptive, "Rules", lambda: Rules(share=0.3, interval=0.002, patience=0))
    a = np.ones((17, 19), np.float32)
    b = np.ones((19, 23), np.float32)
    _only(rivals, a, b)
    settings = portable.using(policy="adaptive")
    with settings:
        rivals.update(quick=3e-4, steady=1e-3)
        began = time.monotonic()
        assert _until(lambda: time.monotonic() > began + 2, a, b)  # what is usual
        assert _runs(a, b) == "quick"
        rivals.update(quick=6e-3)
        assert _until(lambda: _runs(a, b) == "steady", a, b)
        rivals.update(quick=3e-4)
        assert _until(lambda: _runs(a, b) == "quick", a, b)
    np.testing.assert_allclose(portable.matmul(a, b), a @ b)


def _only(rivals, a, b):
    """The two are the only ones that can run it, and quick is the better one by the records."""
    from dataclasses import replace

    from portable import contest, records, selector

    explained = portable.explain("matmul", a, b)
    problem = explained.problem
    for candidate in explained.candidates:
        if candidate.name not in rivals:
            selector.set_aside(candidate, problem, "not in this test")
    result = contest.contest(problem, budget=0.1, backends=list(rivals))
    times = {"quick": 3e-4, "steady": 1e-3}
    made = [replace(r, samples=(times[r.backend],) * 5, status="ok") for r in result.records]
    records.default_store().add(made)
    engine.forget_plans()
    engine.refresh_evidence()


def _runs(a, b):
    """The candidate of the standing plan for these arrays."""
    for (settings, _), built in engine._plans.items():
        specs = [t.shape for t in built.choice.problem.tensors]
        if settings.policy == "adaptive" and specs == [a.shape, b.shape]:
            return built.choice.candidate.name
    return None


def _until(condition, a, b, seconds=60.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(20):
            portable.matmul(a, b)
        if condition():
            return True
    return False


def test_the_caller_gets_right_results_from_many_threads(rivals, monkeypatch):
    monkeypatch.setattr(adaptive, "Rules", lambda: Rules(share=0.5, interval=0.0005, patience=0))
    rivals.update(quick=2e-5, steady=2e-5)
    pairs = [(np.full((n, 3), n, np.float32), np.ones((3, 2), np.float32)) for n in range(30, 38)]
    wrong = []

    def work():
        with portable.using(policy="adaptive"):
            for _ in range(40):
                for a, b in pairs:
                    if not np.array_equal(portable.matmul(a, b), a @ b):
                        wrong.append(a.shape)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_build_must_be_affordable_before_it_starts():
    beliefs = Beliefs({"a": 1e-3, "b": 1e-3}, 0.0, Rules(share=0.01))
    assert beliefs.challenger(5.0, {"b": 0.1}) is None
    assert beliefs.challenger(5.0) == "b"
    assert beliefs.challenger(11.0, {"b": 0.1}) == "b"
    beliefs.charge(0.1)
    assert beliefs.challenger(10.0) is None


def test_what_was_learned_is_stored_with_its_key_and_chosen_by_the_next_process(
    rivals, monkeypatch
):
    """The records say that quick is the better one; in live calls it is not."""
    from portable import evidence, records

    monkeypatch.setattr(adaptive, "Rules", lambda: Rules(share=0.5, interval=0.001, patience=0))
    a, b = np.ones((13, 17), np.float32), np.ones((17, 11), np.float32)
    _only(rivals, a, b)
    rivals.update(quick=2e-3, steady=2e-4)
    with portable.using(policy="adaptive"):
        assert _until(lambda: _runs(a, b) == "steady", a, b)
    assert adaptive.save() == 2
    assert adaptive.save(last=True) == 0  # said once
    live = [r for r in records.default_store().records(op="matmul") if r.method == "live"]
    assert {r.backend for r in live} == {"quick", "steady"}
    assert all(len(r.samples) >= 8 and evidence.why_stale(r) is None for r in live)
    engine.refresh()  # as a new process: plans and evidence are read again
    ranked = [c for c in portable.explain("matmul", a, b).candidates if c.name in rivals]
    assert [c.name for c in ranked] == ["steady", "quick"]
    assert ranked[0].estimate.basis == "exact record"


def test_between_two_checks_calls_go_straight_to_the_kernel(rivals, monkeypatch):
    """Nothing is counted, timed or tried in 10,000 calls when no check is due."""
    monkeypatch.setattr(adaptive, "Rules", lambda: Rules(interval=3600.0))
    a, b = np.ones((5, 7), np.float32), np.ones((7, 3), np.float32)
    _only(rivals, a, b)
    with portable.using(policy="adaptive"):
        portable.matmul(a, b)
        assert _runs(a, b) == "quick"
        (watched,) = (w for w in adaptive._watched if w.built.inputs.specs[0].shape == a.shape)
        rivals.update(quick=0.0)
        for _ in range(10_000):
            portable.matmul(a, b)
            assert watched.settings.plans[watched.key] is watched.run
    assert watched.beliefs.spent == 0.0
    assert not watched.beliefs.lessons


ENDS_IN_A_BUILD = """
import threading, time
import numpy as np
import portable
from portable import adaptive
from tests.fakes import Fake, FakeBackend, right_matmul

began = threading.Event()

class Slow(Fake):
    def compile(self, problem, device, config):
        if threading.current_thread() is not threading.main_thread():
            began.set()
            time.sleep(1.0)
            print("built", flush=True)
        return super().compile(problem, device, config)

for name in ("one", "two"):
    portable.register(FakeBackend(name, {"matmul": Slow(right_matmul)}, priority=1000))
rules = adaptive.Rules(share=1.0, interval=0.001, patience=0, slowest=1e9)
adaptive.Rules = lambda: rules
a, end = np.ones((9, 9), np.float32), time.monotonic() + 60
with portable.using(policy="adaptive"):
    while not began.is_set() and time.monotonic() < end:
        portable.matmul(a, a)
print("ends", flush=True)
"""


def test_a_program_that_ends_in_a_build_waits_for_it(tmp_path):
    """A compiler torn down while a daemon thread is in it aborts the process."""
    done = subprocess.run(
        [sys.executable, "-c", ENDS_IN_A_BUILD],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PORTABLE_DB": str(tmp_path / "records.sqlite")},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == ["ends", "built"]
    assert "Error" not in done.stderr
