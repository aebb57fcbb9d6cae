"""Tuning: the better config wins, interruption keeps, policy="tune" measures once, seeds repeat."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import portable
from portable import cases, contest, engine, machine, measure, records, registry, selector, tuning
from tests.fakes import Fake, FakeBackend, right_matmul, spin


@pytest.fixture(autouse=True)
def _fresh(own_store):
    """Records of one test must not choose for another."""


class Configured(Fake):
    """Takes as long as its config says."""

    def compile(self, problem, device, config):
        kernel = super().compile(problem, device, config)

        def slow(*arrays):
            spin(config.get("wait", 0.0))
            return kernel(*arrays)

        return slow


def problem(m=24, k=24, n=24):
    return cases.problem_of_shapes(registry.op("matmul"), ((m, k), (k, n)), "float32", {})


def _only(backend, monkeypatch, *backends):
    """Just these backends compete."""
    for one in backends:
        backend(one)
    names = {b.name for b in backends}
    real = registry.registered()
    monkeypatch.setattr(
        registry, "registered", lambda: {n: e for n, e in real.items() if n in {*names, "numpy"}}
    )


def _explained():
    a = np.ones((24, 24), np.float32)
    return portable.explain("matmul", a, a)


@pytest.fixture
def tiled(backend, monkeypatch):
    """`tiled(waits)`: a backend whose configs take these times [s]; NumPy stands aside."""

    def add(waits):
        fake = Configured(right_matmul, configs=[{"wait": wait} for wait in waits])
        _only(backend, monkeypatch, FakeBackend("tiled", {"matmul": fake}))
        found = _explained()
        numpy = next(c for c in found.candidates if c.name == "numpy")
        selector.set_aside(numpy, found.problem, "not in this test")

    yield add
    selector.heal()


def test_the_best_config_is_found_and_chosen(tiled):
    tiled([2e-3, 1.2e-3, 6e-4])
    best = tuning.tune_problem(problem(), budget=0.6)
    engine.refresh_evidence()
    assert dict(best.config) == {"wait": 6e-4}
    choice = _explained().choice
    assert (choice.name, dict(choice.config)) == ("tiled", {"wait": 6e-4})


def test_a_large_space_is_searched_by_what_was_measured(tiled):
    """The best of 24 is the last; what lies between tells the way."""
    waits = [3e-3 / 1.15**turn for turn in range(24)]
    tiled(waits)
    best = tuning.tune_problem(problem(), budget=1.0)
    assert best.config["wait"] <= waits[-3]
    tried = {r.config["wait"] for r in records.default_store().records(op="matmul")}
    assert len(tried) < len(waits)


def test_an_interruption_keeps_what_was_learned(backend, monkeypatch):
    _only(backend, monkeypatch, FakeBackend("plain", {"matmul": Fake(right_matmul)}))
    asked = []

    def interrupt(done, total, what):
        asked.append(what)
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuning.tune([problem(16), problem(32), problem(48)], budget=3.0, progress=interrupt)
    kept = {r.problem for r in records.default_store().records(op="matmul") if r.ok}
    assert len(kept) == 1
    assert "last" in asked[1]  # the best so far is shown


def test_policy_tune_measures_at_first_sight_only(backend, monkeypatch):
    _only(backend, monkeypatch, FakeBackend("plain", {"matmul": Fake(right_matmul)}))
    a = np.ones((24, 24), np.float32)
    tuned = []
    real = tuning.tune_problem
    monkeypatch.setattr(
        tuning, "tune_problem", lambda *args, **kw: tuned.append(1) or real(*args, **kw)
    )
    with portable.using(policy="tune"):
        for _ in range(3):
            np.testing.assert_allclose(portable.matmul(a, a), a @ a)
        engine.refresh()  # plans are forgotten, records are not
        portable.matmul(a, a)
    assert tuned == [1]
    assert portable.explain("matmul", a, a).basis == "exact record"


def test_failures_become_records(backend, monkeypatch):
    def broken(problem, a, b):
        raise RuntimeError("driver lost")

    _only(backend, monkeypatch, FakeBackend("broken", {"matmul": Fake(broken)}))
    tuning.tune_problem(problem(), budget=0.3)
    failed = [r for r in records.default_store().records(op="matmul") if r.backend == "broken"]
    assert failed
    assert all(not r.ok and "driver lost" in r.reason for r in failed)


def test_the_heaviest_problem_is_tuned_even_when_the_budget_is_gone(backend, monkeypatch):
    _only(backend, monkeypatch, FakeBackend("plain", {"matmul": Fake(right_matmul)}))
    done = tuning.tune([problem(16), problem(64)], budget=1e-9)
    assert [t.problem for t in done.tuned] == [problem(64)]
    assert done.tuned[0].record
    assert done.skipped == 1


def test_frozen_choices_are_what_was_tuned(backend, monkeypatch, tmp_path):
    _only(backend, monkeypatch, FakeBackend("plain", {"matmul": Fake(right_matmul)}))
    done = tuning.tune([problem(24)], budget=0.5)
    path = str(tmp_path / "choices.json")
    assert done.freeze(path) == 1
    a = np.ones((24, 24), np.float32)
    with portable.using(choices=path):
        found = portable.explain("matmul", a, a)
    assert found.basis == "frozen choice"
    assert found.choice.name == done.rows()[0][1]


@pytest.mark.parametrize("size", [144, 768])
def test_small_problems_are_cold_by_other_arguments_not_by_a_flush(monkeypatch, size):
    """A flush empties the caches of code as well, as far as who was called before lets it: the same
    candidate was twice as fast in a contest against its own other config as against another."""
    seen = {}
    monkeypatch.setattr(measure, "measure", lambda calls, **how: seen.update(how) or {})
    monkeypatch.setattr(machine, "last_level_cache", lambda device: 32 << 20)
    with contextlib.suppress(KeyError):  # nothing was timed
        contest.contest(problem(size, size, size), backends=["numpy"])
    assert (seen["cache"], seen["flush"]) == ("cold", None)
    operands = {a.ctypes.data: a.nbytes for one in seen["arguments"] for a in one}
    assert 1.5 * sum(operands.values()) >= 2 * (32 << 20)  # results are the other third


def scripted(monkeypatch, *times):
    """Contests of these times [s] by entrant, one after the other; returns what each was asked."""
    asked, left = [], iter(times)

    def measured(calls, **how):
        asked.append((list(calls), how))
        script = next(left)
        taken = {name: tuple(script.get(name, ())) for name in calls}
        return {n: measure.Samples(t, tuple(range(len(t))), first=0.0) for n, t in taken.items()}

    monkeypatch.setattr(measure, "measure", measured)
    return asked


@pytest.fixture
def rivals(backend, monkeypatch):
    """ "safe", which is preferred, and "quick", which has two configs; NumPy stands aside."""
    quick = Configured(right_matmul, configs=[{"tile": 1}, {"tile": 2}])
    safe = FakeBackend("safe", {"matmul": Fake(right_matmul)}, priority=9)
    _only(backend, monkeypatch, safe, FakeBackend("quick", {"matmul": quick}))
    found = _explained()
    numpy = next(c for c in found.candidates if c.name == "numpy")
    selector.set_aside(numpy, found.problem, "not in this test")
    yield
    selector.heal()


ONE, TWO = 'quick {"tile": 1}', 'quick {"tile": 2}'


def _tuned_and_chosen():
    best = tuning.tune_problem(problem(), budget=0.1)
    return contest.candidate_name(best), _explained().choice.name


def test_few_samples_of_a_large_difference_are_no_tie(rivals, monkeypatch):
    """Three samples prove nothing at 95 %, but nobody takes the slower one for that."""
    few = {ONE: [1e-3] * 3, TWO: [2e-3] * 3, "safe": [1.6e-3] * 3}
    scripted(monkeypatch, few, few, few)
    assert _tuned_and_chosen() == ("quick", "quick")


@pytest.mark.parametrize(("gap", "chosen"), [(1.02, "safe"), (1.08, "quick")])
def test_the_winner_of_a_tune_is_who_is_chosen_from_then_on(rivals, monkeypatch, gap, chosen):
    """Also where the final's median and the fastest samples of all rounds tell different tales."""
    first = {ONE: [1e-3] * 9, "safe": [1e-3 * gap] * 9}
    final = {ONE: [1e-3, *[1.3e-3] * 20], "safe": [1e-3 * gap, *[1.25e-3] * 20]}
    scripted(monkeypatch, first, {TWO: [3e-3] * 9}, final)
    assert _tuned_and_chosen() == (chosen, chosen)


def test_a_config_that_was_hardly_measured_meets_the_better_one_in_the_final(rivals, monkeypatch):
    """Its only sample was a bad one."""
    first = {ONE: [1.3e-3], "safe": [2e-3]}
    final = {ONE: [8e-4] * 9, TWO: [1e-3] * 9, "safe": [2e-3] * 9}
    asked = scripted(monkeypatch, first, {TWO: [1e-3] * 9}, final)
    best = tuning.tune_problem(problem(), budget=0.1)
    assert dict(best.config) == {"tile": 1}
    assert set(asked[-1][0]) == {ONE, TWO, "safe"}


def test_the_final_may_take_longer_where_it_is_open_who_is_faster(rivals, monkeypatch):
    times = {ONE: [1e-3] * 9, TWO: [2e-3] * 9, "safe": [1e-3] * 9}
    asked = scripted(monkeypatch, times, times, times)
    tuning.tune_problem(problem(), budget=0.1)
    *before, final = [how["overtime"] for _, how in asked]
    assert final > 0 == sum(before)


@pytest.mark.parametrize(("again", "chosen"), [(1.1e-3, "safe"), (4.2e-4, "quick")])
def test_a_suspiciously_fast_result_counts_only_when_it_comes_again(
    rivals, monkeypatch, again, chosen
):
    first = {ONE: [1.05e-3] * 9, "safe": [1e-3] * 9}
    final = {ONE: [4e-4] * 9, "safe": [1e-3] * 9}
    asked = scripted(monkeypatch, first, {TWO: [3e-3] * 9}, final, {ONE: [again] * 9})
    assert _tuned_and_chosen() == (chosen, chosen)
    assert list(asked[-1][0]) == [ONE]
    own = [r for r in records.default_store().records() if r.backend == "quick"]
    assert min(min(r.samples) for r in own) == min(again, 1.05e-3)


def test_results_that_overflow_alike_are_alike():
    """Large problems are checked against a peer: both sums of many half floats are infinite."""
    verdict = contest._peer_verdict()
    result = np.array([np.inf, -np.inf, 1.0, 2.0], np.float16)
    assert not verdict((result,))
    assert not verdict((result.copy(),))
    assert verdict((np.array([np.inf, -np.inf, 1.0, 2.5], np.float16),))
    assert verdict((np.array([np.inf, np.inf, 1.0, 2.0], np.float16),))


def test_a_close_decision_is_looked_at_again_at_another_moment(rivals, monkeypatch):
    """The first moment was bad for the safer one; best moments are compared."""
    bad = {ONE: [1e-3] * 9, TWO: [2e-3] * 9, "safe": [1.06e-3] * 20}
    asked = scripted(monkeypatch, bad, bad, bad, {ONE: [9.9e-4] * 9, "safe": [1e-3] * 9})
    (tuned,) = tuning.tune([problem()], budget=9.0).tuned
    assert set(asked[-1][0]) == {ONE, "safe"}
    assert contest.candidate_name(tuned.record) == "safe"


def test_a_clear_decision_is_not_looked_at_again(rivals, monkeypatch):
    clear = {ONE: [1e-3] * 9, TWO: [2e-3] * 9, "safe": [1.3e-3] * 9}
    asked = scripted(monkeypatch, clear, clear, clear)
    (tuned,) = tuning.tune([problem()], budget=9.0).tuned
    assert len(asked) == 3
    assert contest.candidate_name(tuned.record) == "quick"


def test_finals_that_take_longer_leave_time_for_the_rest(backend, monkeypatch):
    """Each problem takes all it is given; all are reached, and the time box holds."""
    _only(backend, monkeypatch, FakeBackend("plain", {"matmul": Fake(right_matmul)}))
    now, shares = [0.0], []

    def tune_problem(given, *, budget, overtime, **_):
        shares.append(budget)
        now[0] += budget + overtime

    monkeypatch.setattr(tuning.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(tuning, "tune_problem", tune_problem)
    done = tuning.tune([(problem(m), 1.0) for m in (24, 26, 28, 30)], budget=100.0)
    assert (len(done.tuned), done.skipped) == (4, 0)
    assert min(shares) > 1.0
    assert now[0] <= 100.0
