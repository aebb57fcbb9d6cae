"""What counts as slower, and what does not."""

import random

import pytest

from portable.report.baseline import compare, interval
from portable.report.rows import build_rows
from tests.report import made

A = made.matmul()


def change(then, now, **more):
    before, after = (build_rows(r if isinstance(r, list) else [r])[0] for r in (then, now))
    (found,) = compare(before, after, **more)
    return found


def test_slower_beyond_the_noise():
    found = change(made.record(A, time=1e-3), made.record(A, time=1.2e-3))
    assert found.kind == "slower"
    assert found.regression
    assert found.ratio == pytest.approx(1.2)
    assert found.low < 1.2 < found.high
    assert change(made.record(A, time=1.2e-3), made.record(A, time=1e-3)).kind == "faster"


def test_inside_the_noise_is_the_same():
    then, now = (made.record(A, time=t, noise=0.4) for t in (1e-3, 1.2e-3))
    assert change(then, now).kind == "same"


def test_inside_the_tolerance_is_the_same():
    then, now = made.record(A, time=1e-3, noise=0.001), made.record(A, time=1.04e-3, noise=0.001)
    assert change(then, now).kind == "same"
    assert change(then, now, tolerance=0.01).kind == "slower"


def test_what_breaks_is_a_regression_and_what_is_mended_is_not():
    good, bad = made.record(A), made.record(A, status="incorrect", reason="off by 9 ulp")
    broken = change(good, bad)
    assert (broken.kind, broken.regression) == ("broken", True)
    assert "off by 9 ulp" in broken.reason
    assert change(bad, good).kind == "fixed"
    assert change(bad, bad).kind == "same"


def test_gone_and_new_are_told_but_no_regression():
    a, b = made.record(A, "numpy"), made.record(A, "torch")
    found = compare(build_rows([a])[0], build_rows([b])[0])
    assert {c.kind for c in found} == {"gone", "new"}
    assert not any(c.regression for c in found)


def test_another_machine_of_the_same_kind_is_compared():
    assert change(made.record(A), made.record(A, time=3e-3, machine="bb")).kind == "slower"


def test_cold_and_warm_are_not_compared():
    found = change(made.record(A, time=1e-3), made.record(A, time=3e-3, cache="warm"))
    assert not found.regression
    assert "not compared" in found.reason


def test_interval_covers_the_median_as_often_as_it_says():
    rng = random.Random(1)
    hits = 0
    for _ in range(2000):
        low, high = interval([rng.lognormvariate(0, 1) for _ in range(15)])
        hits += low <= 1.0 <= high
    assert 0.95 <= hits / 2000 <= 0.99  # 15 samples: exactly 96.5 %


def test_few_samples_give_the_whole_range():
    assert interval([3.0]) == (3.0, 3.0)
    assert interval([1.0, 2.0, 3.0]) == (1.0, 3.0)
