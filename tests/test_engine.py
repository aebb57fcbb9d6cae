"""Calls, choices, overrides, failures, bound calls, profiles: by backends that leave a mark."""

from __future__ import annotations

import contextlib
import threading

import numpy as np
import pytest

import portable
from portable import arrays, engine, records, registry, selector
from portable.device import Device, DeviceInfo
from portable.errors import (
    BackendMissingError,
    DeviceMismatchError,
    FamilyError,
    PluginError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
    WrongResultError,
)
from tests.fakes import Fake, FakeBackend, right_matmul


@pytest.fixture(autouse=True)
def _fresh(own_store):
    """Records of one test must not choose for another."""


@pytest.fixture
def ab():
    rng = np.random.default_rng(0)
    return rng.standard_normal((8, 6), dtype=np.float32), rng.standard_normal(
        (6, 5), dtype=np.float32
    )


def test_a_call_gives_the_family_and_value(ab):
    a, b = ab
    y = portable.matmul(a, b)
    assert type(y) is np.ndarray
    np.testing.assert_allclose(y, a @ b, rtol=1e-5, atol=1e-5)


def test_watermark_shows_which_backend_ran(backend, ab):
    """The gate checks small cases only; the mark on the result tells who computed it."""
    fake = Fake(lambda problem, a, b: right_matmul(problem, a, b))
    backend(FakeBackend("marked", {"matmul": fake}))
    with portable.using(backend="marked"):
        portable.matmul(*ab)
    ran = fake.calls
    with portable.using(backend="numpy"):
        portable.matmul(*ab)
    assert ran > 0
    assert fake.calls == ran


def test_a_wrong_implementation_is_never_chosen_and_says_why_when_forced(backend, ab):
    wrong = Fake(lambda problem, a, b: right_matmul(problem, a, b) * np.asarray(1.01, a.dtype))
    backend(FakeBackend("wrong", {"matmul": wrong}, priority=1000))
    np.testing.assert_allclose(portable.matmul(*ab), ab[0] @ ab[1], rtol=1e-5, atol=1e-5)
    with portable.using(backend="wrong"), pytest.raises(WrongResultError, match="error bound"):
        portable.matmul(*ab)
    refused = {c.name: c.refused for c in portable.explain("matmul", *ab).refused}
    assert "error bound" in refused["wrong"][0]


def test_a_failing_backend_is_set_aside_once_and_loudly(backend, ab):
    state = {"broken": False}

    def moody(problem, a, b):
        if state["broken"]:
            raise RuntimeError("driver lost")
        return right_matmul(problem, a, b)

    fake = Fake(moody)
    backend(FakeBackend("moody", {"matmul": fake}, priority=1000))
    choose_unmeasured(fake, ab)
    state["broken"] = True
    with pytest.warns(RuntimeWarning, match="moody failed.*driver lost.*takes over"):
        y = portable.matmul(*ab)
    np.testing.assert_allclose(y, ab[0] @ ab[1], rtol=1e-5, atol=1e-5)
    portable.matmul(*ab)  # no second warning: filterwarnings = error would raise
    reasons = {c.name: c.refused for c in portable.explain("matmul", *ab).refused}
    assert "driver lost" in reasons["moody"][0]
    with portable.using(backend="moody"), pytest.raises(RuntimeError, match="driver lost"):
        portable.matmul(*ab)


def choose_unmeasured(fake, ab):
    """Give a fake the best record, so that it is chosen."""
    from portable import contest

    problem = portable.explain("matmul", *ab).problem
    result = contest.contest(problem, budget=0.05, backends=["moody"])
    fast = [
        type(r)(**{**_fields(r), "samples": (1e-9,) * 5, "status": "ok"}) for r in result.records
    ]
    records.default_store().add(fast)
    engine.refresh()
    assert portable.explain("matmul", *ab).choice.name == "moody"
    portable.matmul(*ab)


def _fields(record):
    return {name: getattr(record, name) for name in record.__slots__}


def test_a_forced_backend_that_cannot_raises_with_reasons(backend, ab):
    fake = Fake(right_matmul, refuse=["k is 6 (takes multiples of 16)"])
    backend(FakeBackend("picky", {"matmul": fake}))
    with portable.using(backend="picky"), pytest.raises(UnsupportedError, match="multiples of 16"):
        portable.matmul(*ab)


def test_unknown_and_missing_names_raise_with_the_fix(backend, ab):
    with (
        pytest.raises(UnknownNameError, match="Did you mean 'numpy'"),
        portable.using(backend="numpi"),
    ):
        pass
    backend(FakeBackend("absent", {}, missing=("no driver", "apt install driver")))
    with (
        pytest.raises(BackendMissingError, match="no driver.*apt install driver"),
        portable.using(backend="absent"),
    ):
        pass
    with pytest.raises(UnknownNameError, match="policy"), portable.using(policy="guess"):
        pass
    with pytest.raises(UnknownNameError, match="device"), portable.using(device="cuda:77"):
        pass
    with pytest.raises(UnknownNameError, match="op"):
        portable.explain("matmull", *ab)


def test_mixing_families_raises_with_the_fix(ab):
    torch = pytest.importorskip("torch")
    with pytest.raises(FamilyError, match="numpy array and b is a torch array.*numpy.asarray"):
        portable.matmul(ab[0], torch.from_numpy(ab[1]))


def test_no_arrays_raise_with_the_fix():
    with pytest.raises(FamilyError, match=r"builtins\.list.*numpy\.asarray"):
        portable.matmul([[1.0]], [[1.0]])


def test_anything_with_an_array_protocol_is_taken(ab):
    class Wrapped:
        def __init__(self, value):
            self.value = value

        def __array__(self, dtype=None, copy=None):
            return self.value

    y = portable.matmul(Wrapped(ab[0]), Wrapped(ab[1]))
    assert type(y) is np.ndarray
    np.testing.assert_allclose(y, ab[0] @ ab[1], rtol=1e-5, atol=1e-5)


def test_bound_call_runs_and_refuses_other_signatures(ab):
    bound = portable.bind("matmul", *ab)
    np.testing.assert_allclose(bound(*ab), ab[0] @ ab[1], rtol=1e-5, atol=1e-5)
    with pytest.raises(ShapeError, match="bound for matmul"):
        bound(ab[0], ab[1][:, :3])
    with pytest.raises(ShapeError):
        bound(ab[0].astype(np.float64), ab[1].astype(np.float64))


def test_explain_names_everyone_and_runs_nothing(known_machine, backend, ab):
    fake = Fake(right_matmul, refuse=["is closed today"])
    backend(FakeBackend("closed", {"matmul": fake}))
    found = portable.explain("matmul", *ab)
    named = {c.name.partition("[")[0] for c in (*found.candidates, *found.refused)}
    assert named == set(registry.registered())
    assert fake.compiled == 0
    text = str(found)
    assert "is closed today" in text
    assert "speed of light" in text
    assert found.choice.name in text
    assert found.speed_of_light.time > 0


def test_profile_counts_and_keeps_results(known_machine, ab):
    with portable.profile() as p:
        for _ in range(3):
            y = portable.matmul(*ab)
        portable.softmax(ab[0])
    np.testing.assert_allclose(y, ab[0] @ ab[1], rtol=1e-5, atol=1e-5)
    calls = {row.problem.op: row.calls for row in p.rows}
    assert calls == {"matmul": 3, "softmax": 1}
    assert 0 < p.time < 5
    assert all(0 < row.sol_fraction < 1 for row in p.rows)
    assert "matmul" in str(p)


def test_settings_nest_and_leave_no_trace(ab):
    from portable.settings import current

    before = current.get()
    with portable.using(precision="high"):
        with portable.using(deterministic=True) as inner:
            assert inner.precision == "high"
            assert inner.deterministic
        assert not current.get().deterministic
    assert current.get() is before


def test_deterministic_leaves_out_who_is_not(backend, ab):
    backend(FakeBackend("atomic", {"matmul": Fake(right_matmul, DETERMINISTIC=False)}))
    with portable.using(deterministic=True):
        refused = {c.name: c.refused for c in portable.explain("matmul", *ab).refused}
    assert "not deterministic" in refused["atomic"][0]


def test_data_is_computed_where_it_lives_unless_offload(backend, ab):
    from portable.device import Device, DeviceInfo

    far = Device("fake:0", DeviceInfo("far"))
    backend(FakeBackend("far", {"matmul": Fake(right_matmul)}, devices=(far,)))
    refused = {c.name: c.refused for c in portable.explain("matmul", *ab).refused}
    assert "offload=True" in refused["far"][0]
    with portable.using(backend="far", offload=True):
        choice = portable.explain("matmul", *ab).choice
        assert choice.name == "far"
        assert any("moved from cpu to fake:0" in why for _, why in choice.route.copies)
        np.testing.assert_allclose(portable.matmul(*ab), ab[0] @ ab[1], rtol=1e-5, atol=1e-5)


def test_two_names_or_another_api_version_are_refused():
    class Old(FakeBackend):
        api_version = 99

    with pytest.raises(PluginError, match=r"version 99.*version 1"):
        portable.register(Old("old", {}))
    with pytest.raises(PluginError, match="registered already"):
        portable.register(FakeBackend("numpy", {}))


def test_threads_build_a_plan_once_and_all_get_right_results(backend):
    fake = Fake(right_matmul)
    backend(FakeBackend("counted", {"matmul": fake}))
    rng = np.random.default_rng(1)
    pairs = [
        (
            rng.standard_normal((n, 4), dtype=np.float32),
            rng.standard_normal((4, 3), dtype=np.float32),
        )
        for n in range(1, 9)
    ]
    wrong = []

    def work():
        with portable.using(backend="counted"):
            for _ in range(50):
                for a, b in pairs:
                    y = portable.matmul(a, b)
                    if not np.allclose(y, a @ b, atol=1e-5):
                        wrong.append(a.shape)

    before = fake.compiled
    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    gate_builds = 3  # cases of the correctness gate, once
    assert fake.compiled - before <= len(pairs) + gate_builds


def test_frozen_choices_are_honoured_or_raise(tmp_path, ab):
    from portable import frozen

    problem = portable.explain("matmul", *ab).problem
    path = str(tmp_path / "choices.json")
    frozen.save(path, [(problem, frozen.Frozen("numpy"))])
    with portable.using(choices=path):
        found = portable.explain("matmul", *ab)
        assert (found.choice.name, found.basis) == ("numpy", "frozen choice")
        portable.matmul(*ab)
    other = str(tmp_path / "other.json")
    frozen.save(other, [(problem, frozen.Frozen("cuda"))])
    with portable.using(choices=other), pytest.raises(UnsupportedError, match="freeze again"):
        portable.matmul(*ab)


def test_records_make_a_choice_exact_and_stable(backend, ab):
    from portable import contest

    problem = portable.explain("matmul", *ab).problem
    records.default_store().add(contest.contest(problem, budget=0.2).records)
    engine.refresh()
    first = portable.explain("matmul", *ab)
    assert first.basis == "exact record"
    for _ in range(3):
        engine.refresh()
        assert portable.explain("matmul", *ab).choice.name == first.choice.name


def test_mismatched_devices_raise(monkeypatch, ab):
    family = registry.families()["numpy"]
    places = iter(["cpu", "cuda:0"])
    monkeypatch.setattr(type(family), "device", lambda self, x: next(places))
    with pytest.raises(DeviceMismatchError, match="a is on cpu and b is on cuda:0"):
        portable.matmul(np.ones((3, 7), np.float32), np.ones((7, 2), np.float32))


def test_set_aside_is_forgotten_by_heal(backend, ab):
    explained = portable.explain("matmul", *ab)
    selector.set_aside(explained.choice, explained.problem, "test")
    assert portable.explain("matmul", *ab).choice.name != explained.choice.name
    selector.heal()
    assert portable.explain("matmul", *ab).choice.name == explained.choice.name


@pytest.mark.parametrize("axis", [[0], {}, 1.5, "last"])
def test_a_parameter_of_the_wrong_kind_is_named(axis):
    with pytest.raises((ValueError, TypeError), match="axis"):
        portable.softmax(np.ones((2, 3), np.float32), axis=axis)


def test_the_gate_uses_a_config_only_where_it_is_offered(backend):
    """A kernel that is meant for vectors is judged by vectors, not by squares."""

    class ByShape(Fake):
        def configs(self, problem, device):
            vector = problem.tensors[0].ndim == 1
            return [{"kind": "vector" if vector else "square"}]

        def compile(self, problem, device, config):
            if (problem.tensors[0].ndim == 1) != (config["kind"] == "vector"):
                return lambda a, b: np.zeros(problem.results[0].shape, a.dtype)
            return super().compile(problem, device, config)

    backend(FakeBackend("shaped", {"matmul": ByShape(right_matmul)}))
    v, m = np.ones(7, np.float32), np.ones((7, 5), np.float32)
    with portable.using(backend="shaped"):
        np.testing.assert_array_equal(portable.matmul(v, m), np.full(5, 7, np.float32))
        np.testing.assert_array_equal(portable.matmul(m.T, m), m.T @ m)


def test_arrays_of_another_library_run_on_that_librarys_stream(monkeypatch, ab):
    log = []

    class OnStream(FakeBackend):
        families = ("cupy",)

        @contextlib.contextmanager
        def on_stream_of(self, family, device):
            log.append(f"{family} on {device.id}")
            yield
            log.append("left")

    monkeypatch.setattr(registry, "backend", lambda name: OnStream(name, {}))
    inputs = arrays.look_at(ab, ("a", "b"))
    route = arrays.Route("cupy", lambda x: x, lambda x: x)
    for device, expected in (
        ("cuda:0", ["numpy on cuda:0", "kernel", "left"]),
        ("cpu", ["kernel"]),
    ):
        log.clear()
        candidate = selector.Candidate("toy", Device(device, DeviceInfo("toy")), route=route)
        engine.join(lambda a, b: log.append("kernel"), candidate, inputs)(*ab)
        assert log == expected
