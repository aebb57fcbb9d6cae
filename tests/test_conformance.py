"""The conformance check: it must reject every wrong implementation, each for the right reason."""

from __future__ import annotations

import json

import numpy as np
import pytest

from portable import cases, registry
from portable.conformance import CHECKS, conform, memory, plan
from portable.conformance.result import digest
from portable.errors import UnknownNameError
from tests.fakes import CPU, Fake, FakeBackend, right_matmul
from tests.wrong import behaviour, implementations

WRONG = [*implementations.WRONG, *behaviour.WRONG]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.name)
def test_wrong_implementations_are_rejected(backend, wrong):
    """The first check that fails is the one that names the fault."""
    backend(FakeBackend("wrong", {wrong.op: wrong.implementation}))
    dtypes = ["float32", "float16"] if wrong.op == "matmul" else ["float32"]
    result = conform("wrong", level=wrong.level, dtypes=dtypes, fail_fast=True)
    assert not result.passed
    assert [o.check for o in result.failures] == [wrong.check], result.failures


def test_the_wrong_ones_cover_the_checks():
    """What no wrong implementation shows is said here, with the reason."""
    elsewhere = {"dispatch", "coverage", "streams", "wait"}  # tests below
    assert {w.check for w in WRONG} == set(CHECKS) - elsewhere


def test_a_right_implementation_passes(backend):
    backend(FakeBackend("right", {"matmul": Fake(right_matmul)}))
    result = conform("right", level="full", dtypes=["float32", "float16"])
    assert result.passed, str(result)
    assert "conforms at level full" in str(result)


def test_the_badge_tells_counts_levels_and_versions(backend):
    backend(FakeBackend("right", {"matmul": Fake(right_matmul)}))
    result = conform("right", level="full", dtypes=["float32"])
    badge = json.loads(json.dumps(result.to_json()))
    assert badge["conforms"] is True
    assert badge["level_reached"] == "full"
    assert badge["totals"]["passed"] == sum(n["passed"] for n in badge["levels"].values()) > 40
    assert badge["versions"]["api"] == "1"
    assert badge["digest"] == digest(badge)
    assert digest({**badge, "level": "hostile"}) != badge["digest"]


def test_a_failure_limits_the_level_reached(backend):
    slow = Fake(implementations.swallows_nan)
    backend(FakeBackend("nan", {"matmul": slow}))
    result = conform("nan", level="hostile", dtypes=["float32"])
    assert not result.passed
    assert result.reached == "full"


def test_an_empty_or_refusing_backend_does_not_pass(backend):
    backend(FakeBackend("empty", {}))
    result = conform("empty")
    assert not result.passed
    assert "ops() is empty" in str(result)
    backend(FakeBackend("refusing", {"matmul": Fake(right_matmul, refuse=["never"])}))
    result = conform("refusing")
    assert not result.passed
    assert result.to_json()["refusals"] == ["never"]
    assert [o.check for o in result.failures] == ["coverage"]
    assert "never" in result.failures[0].reasons[0]


def test_an_op_of_which_everything_is_refused_does_not_count_as_had(backend):
    ops = {"matmul": Fake(right_matmul), "softmax": Fake(None, refuse=["not yet"])}
    backend(FakeBackend("half", ops))
    failures = conform("half").failures
    assert [(o.op, o.check) for o in failures] == [("softmax", "coverage")]


def test_a_contract_that_is_not_kept_is_told(backend):
    odd = FakeBackend("odd", {"matmull": Fake(right_matmul)}, devices=(CPU, CPU))
    odd.path = "magic"
    backend(odd)
    (failure, *_) = conform("odd").failures
    assert failure.check == "contract"
    text = "; ".join(failure.reasons)
    assert "path is 'magic'" in text
    assert "one (id, runtime) twice" in text
    assert "ops() lists matmull" in text


def test_dispatch_notices_that_another_backend_ran(backend, monkeypatch):
    from portable.conformance import probes, subject

    backend(FakeBackend("mine", {"matmul": Fake(right_matmul)}))
    monkeypatch.setattr(subject.Subject, "candidate", property(lambda s: "numpy"))
    trial = next(t for t in plan("mine") if t.name == "probe: dispatch")
    monkeypatch.setattr(
        subject.Subject, "call", lambda *a, **k: subject.Dispatched(np.zeros(1), ["other"])
    )
    assert isinstance(trial, probes.Probe)
    outcome = trial.run()
    assert (outcome.status, outcome.check) == ("failed", "dispatch")


def test_there_are_at_least_a_thousand_cases():
    """Over all ops, each case counted once whatever its dtypes."""
    count = sum(len(registry.op(name).cases()) for name in registry.op_names())
    assert count >= 1000
    assert len(plan("numpy", level="hostile")) >= 4000


def test_unknown_names_raise():
    with pytest.raises(UnknownNameError, match="level"):
        conform("numpy", level="extreme")
    with pytest.raises(UnknownNameError, match="backend"):
        conform("nobody")
    with pytest.raises(UnknownNameError, match="op"):
        conform("numpy", ops=["matmull"])


@pytest.mark.parametrize("layout", [*cases.LAYOUTS, "0-d", "empty"])
def test_guarded_copies_keep_values_and_strides_and_see_every_write(layout):
    from portable.op import Operand

    shape = {"0-d": (), "empty": (0, 3)}.get(layout, (5, 7))
    known = layout if layout in cases.LAYOUTS else "contiguous"
    array = cases.laid_out(Operand(shape, "", "normal", known), "float32", np.random.default_rng(0))
    place = memory.guarded(array)
    assert np.array_equal(place.array, array)
    assert place.array.strides == array.strides or array.size < 2
    assert not place.changed()
    assert not place.trespassed()
    place.buffer[0] ^= 1
    assert place.trespassed()
    place.buffer[0] ^= 1
    place.refill(np.broadcast_to(array[:1] + 1, array.shape) if array.ndim else array + 1)
    assert not place.changed()
    if array.size:
        place.array[(0,) * array.ndim] += 1
        assert place.changed()
        assert not place.trespassed()


def test_watched_memory_is_poisoned_and_guarded():
    with memory.watched() as seen:
        y = np.empty((3, 5), np.float32)
        assert np.isnan(y).all()
        assert not np.zeros_like(y).any()
        whole = y.base
    assert len(seen) == 2
    assert not any(a.trespassed() for a in seen)
    whole[-1] = 0
    assert seen[0].trespassed()
    assert np.empty(3).base is None


def test_far_arrays_reach_beyond_31_bits():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    far = memory.far(array)
    assert np.array_equal(far, array)
    assert 2 * far.strides[0] // far.itemsize > 1 << 31
