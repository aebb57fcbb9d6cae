"""The ladder of evidence: rungs, correction by local records, staleness, errors, stable choices."""

from __future__ import annotations

import math
import random
import threading
from dataclasses import replace

import numpy as np
import pytest

import portable
from portable import cases, engine, estimate, evidence, records, registry
from portable.estimate import Point, Surface
from tests.fakes import Fake, FakeBackend, right_matmul


@pytest.fixture(autouse=True)
def _fresh(own_store):
    """Records of one test must not choose for another."""


def problem(m, k=256, n=256, dtype="float32"):
    return cases.problem_of_shapes(registry.op("matmul"), ((m, k), (k, n)), dtype, {})


def point(posed, slowdown, distance=0.0, spread=0.01, samples=25):
    return Point(
        estimate.features(posed), estimate.traits(posed), slowdown, distance, "test", posed,
        2.0**slowdown, spread, samples,
    )  # fmt: skip


def test_an_exact_record_beats_everything():
    p = problem(64)
    surface = Surface([point(p, 3.0), point(problem(65), 0.0), point(p, 1.0, distance=1.0)])
    found = estimate.estimate(surface, p, 1.0)
    assert found.basis == estimate.EXACT
    assert found.time == 8.0


def test_the_rungs_in_order():
    p = problem(64)
    near, kin = [point(problem(128), 2.0)], [point(problem(128), 2.0, distance=2.0)]
    assert estimate.estimate(Surface(near), p, 1.0).basis == estimate.NEIGHBOUR
    assert estimate.estimate(Surface(kin), p, 1.0).basis == estimate.KIN
    none = Surface(())
    assert estimate.estimate(none, p, 1.0, Surface(near)).basis == estimate.EFFICIENCY
    assert estimate.estimate(none, p, 1.0).basis == estimate.ROOFLINE


def test_expected_errors_grow_down_the_ladder():
    p, q = problem(64), problem(512)
    surfaces = [
        Surface([point(p, 2.0)]),
        Surface([point(problem(80), 2.0)]),
        Surface([point(q, 2.0)]),
        Surface([point(q, 2.0, distance=2.0)]),
    ]
    errors = [estimate.estimate(s, p, 1.0).error for s in surfaces]
    none = Surface(())
    errors.append(estimate.estimate(none, p, 1.0, surfaces[-1]).error)
    errors.append(estimate.estimate(none, p, 1.0).error)
    assert errors == sorted(errors)


def conv(x, w, **params):
    return cases.problem_of_shapes(registry.op("conv2d"), (x, w), "float32", params)


def test_convolutions_of_another_kind_count_less_than_farther_ones_of_the_same():
    asked = conv((1, 16, 384, 384), (48, 16, 1, 1))
    depthwise = conv((4, 32, 112, 112), (32, 1, 3, 3), groups=32, padding=1)
    pointwise = conv((1, 64, 112, 112), (128, 64, 1, 1))
    found = Surface([point(depthwise, 0.0, 2.0), point(pointwise, 4.0, 2.0)]).at(asked)
    assert found[0] > 2.0
    assert found[2].problem == pointwise


def test_a_few_local_records_shift_the_level_of_the_priors_everywhere():
    """Priors say 2^1; here the candidate is four times slower at two places: so elsewhere too."""
    kin = [point(problem(m), 1.0, distance=1.0) for m in (16, 64, 256, 1024, 4096)]
    local = [point(problem(m), 3.0) for m in (32, 64)]
    far = problem(4096)
    before = Surface(kin).at(far)[0]
    after = Surface([*kin, *local]).at(far)[0]
    assert before == pytest.approx(1.0)
    assert 2.0 < after < 3.0
    assert Surface([*kin, *local]).at(problem(64))[0] == pytest.approx(3.0, abs=0.2)


def test_a_disturbed_record_counts_less_than_a_clean_one():
    """Priors say 2^1; one record says 2^5: of 25 even samples, of one, of three that disagree."""
    kin = [point(problem(m), 1.0, distance=1.0) for m in (16, 64, 256, 1024, 4096)]
    near = problem(96)

    def at(**how):
        return Surface([*kin, point(problem(64), 5.0, **how)]).at(near)[0]

    clean, single, uneven = at(), at(samples=1), at(samples=9, spread=1.0)
    assert 1.0 < single < uneven < clean
    assert single < 4.0 < uneven


@pytest.mark.parametrize(
    ("slowdowns", "expected"),
    [
        ((1.0, 1.5, 1.9), 2.0),  # the fastest
        ((1.0, 1.1, 1.2, 6.0), 2.0),  # once in a bad moment
        ((1.0, 5.0), 8.0),
        ((1.0, 5.0, 5.0, 5.2), 8.0),
    ],
)
def test_of_several_records_the_fastest_counts_unless_there_are_two_speeds(slowdowns, expected):
    found = evidence.joined([point(problem(64), s) for s in slowdowns])
    assert found.time == pytest.approx(expected)
    assert 2.0**found.slowdown == pytest.approx(expected)
    assert ("two speeds" in found.source) == (expected > 2.0)


def test_few_samples_and_other_machines_do_not_make_two_speeds():
    p = problem(64)
    assert evidence.joined([point(p, 1.0), point(p, 5.0, samples=1)]).time == 2.0
    assert evidence.joined([point(p, 1.0), point(p, 5.0, distance=2.0)]).time == 2.0


def test_an_exact_record_of_one_sample_is_not_sure():
    p = problem(64)
    sure, unsure = (estimate.estimate(Surface([point(p, 1.0, samples=n)]), p, 1.0) for n in (25, 1))
    assert sure.basis == unsure.basis == estimate.EXACT
    assert unsure.error > 0.3 > 10 * sure.error


def test_priors_keep_their_shape_under_a_shift():
    """The kin's slope over sizes survives a local record at one end."""
    kin = [point(problem(2**e), e / 2, distance=1.0) for e in range(3, 12)]
    local = [point(problem(8), 1.5 + 2.0)]
    surface = Surface([*kin, *local])
    assert surface.at(problem(1024))[0] - surface.at(problem(128))[0] == pytest.approx(1.5, abs=0.4)


def test_between_two_seen_shapes_the_loss_is_bounded():
    """Two candidates that cross between seen shapes, a factor of two apart: a choice at any size
    between costs at most a quarter more than the better one."""
    rng = random.Random(0)

    def true(name, m):
        slope = {"a": 0.5, "b": -0.5}[name]
        return slope * (math.log2(m) - 7.3)

    seen = [2**e for e in range(4, 12)]
    surfaces = {
        name: Surface([point(problem(m), true(name, m) + rng.gauss(0, 0.03)) for m in seen])
        for name in ("a", "b")
    }
    worst = 0.0
    for m in range(17, 2000, 13):
        expected = {n: estimate.estimate(s, problem(m), 1.0).cautious for n, s in surfaces.items()}
        chosen = min(expected, key=expected.get)
        worst = max(worst, true(chosen, m) - min(true(n, m) for n in surfaces))
    assert 2.0**worst < 1.25


def test_a_guess_does_not_displace_a_known_one_for_a_hair():
    known = estimate.Estimate(1.0, 0.02, estimate.EXACT, "")
    guess = estimate.Estimate(0.95, 1.0, estimate.KIN, "")
    assert known.cautious < guess.cautious


def _record(name, posed, seconds):
    from portable import contest

    (found,) = contest.contest(posed, budget=0.02, backends=[name]).records
    return replace(found, samples=(seconds,) * 5, status="ok")


def test_stale_records_count_farther_away_and_say_why(backend):
    backend(FakeBackend("aged", {"matmul": Fake(right_matmul)}))
    p = problem(48)
    fresh = _record("aged", p, 1e-3)
    records.default_store().add([replace(fresh, source_hash="before")])
    engine.refresh()
    a, b = np.ones((48, 256), np.float32), np.ones((256, 256), np.float32)
    found = {c.name: c.estimate for c in portable.explain("matmul", a, b).candidates}["aged"]
    assert found.basis == estimate.KIN
    assert "stale: the implementation's source has changed" in found.evidence
    records.default_store().add([fresh])
    engine.refresh()
    found = {c.name: c.estimate for c in portable.explain("matmul", a, b).candidates}["aged"]
    assert found.basis == estimate.EXACT


def test_the_config_comes_from_the_evidence(backend):
    fake = Fake(right_matmul, configs=({"tile": 1}, {"tile": 2}, {"tile": 3}))
    backend(FakeBackend("tiled", {"matmul": fake}))
    p = problem(48)
    base = _record("tiled", p, 1e-3)
    records.default_store().add(
        [replace(base, config={"tile": t}, samples=(s,) * 5) for t, s in ((1, 2e-3), (2, 1e-3))]
    )
    engine.refresh()
    for m in (48, 56):  # seen, and between
        a, b = np.ones((m, 256), np.float32), np.ones((256, 256), np.float32)
        (chosen,) = [c for c in portable.explain("matmul", a, b).candidates if c.name == "tiled"]
        assert chosen.config == {"tile": 2}


def test_shipped_priors_are_readable_and_name_their_machine():
    total = sum(len(evidence.priors(op)) for op in registry.op_names())
    assert total > 100
    for record in evidence.priors("matmul"):
        assert record.ok
        assert record.device.name
        assert record.versions
        assert record.roofs


def test_a_cold_half_precision_product_is_not_left_to_a_slow_path():
    """Of those with priors, whoever is chosen is within twice the best prior of that problem."""
    p = problem(512, 512, 512, "float16")
    own = [r for r in evidence.priors("matmul") if r.problem == p]
    assert len({r.backend for r in own}) > 1, "shipped priors hold this problem"
    a = np.ones((512, 512), np.float16)
    chosen = portable.explain("matmul", a, a).choice
    best = min(min(r.samples) for r in own)
    times = [
        min(r.samples)
        for r in own
        if (r.backend, r.runtime) == (chosen.backend, chosen.device.runtime)
    ]
    assert times
    assert min(times) <= 2 * best


def test_same_evidence_same_choice_in_every_process(tmp_path):
    """Ranks: three processes with the same store choose the same for twelve problems."""
    import os
    import subprocess
    import sys

    code = (
        "from portable import explaining, calibrate\n"
        "ps = calibrate.probe_problems()[::8][:12]\n"
        "found = [explaining.of_problem(p, 'cpu').choice for p in ps]\n"
        "print([(c.name, dict(c.config)) for c in found])"
    )
    environment = {**os.environ, "PORTABLE_DB": str(tmp_path / "ranks.sqlite")}
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    answers = {p.communicate()[0] for p in running}
    assert len(answers) == 1
    assert b"[(" in answers.pop()


def test_sixteen_threads_fifty_problems_no_wrong_result_and_no_duplicate_build(backend):
    fake = Fake(right_matmul)
    backend(FakeBackend("counted", {"matmul": fake}))
    rng = np.random.default_rng(0)
    pairs = []
    for n in range(1, 51):
        a = rng.integers(-4, 5, (n, 3)).astype(np.float32)
        b = rng.integers(-4, 5, (3, 2)).astype(np.float32)
        pairs.append((a, b, a @ b))
    with portable.using(backend="counted"):
        portable.matmul(*pairs[0][:2])  # the gate's own builds
    before, wrong = fake.compiled, []

    def work():
        with portable.using(backend="counted"):
            for _ in range(200):
                for a, b, expected in pairs:
                    if not np.array_equal(portable.matmul(a, b), expected):
                        wrong.append(a.shape)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert fake.calls >= 16 * 10_000
    assert fake.compiled - before == len(pairs) - 1
