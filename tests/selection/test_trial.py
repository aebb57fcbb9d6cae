"""Plugins that crash, hang, lie: the process lives, a record says why, another backend runs."""

from __future__ import annotations

import sys
import textwrap

import numpy as np
import pytest

import portable
from portable import engine, isolate, records, registry, trial
from portable.errors import PortableError
from tests.fakes import Fake, FakeBackend, right_matmul

FAULTS = {
    "crash": ("import ctypes; ctypes.string_at(0)", "crash", "SIGSEGV"),
    "abort": ("import os; os.abort()", "crash", "SIGABRT"),
    "leave": ("import os; os._exit(3)", "crash", "exit code 3"),
    "hang": ("import time; time.sleep(600)", "hang", "no answer within"),
    "eater": (
        "import numpy\n        hoard = [numpy.ones(1 << 22) for _ in range(300)]; return a @ b",
        "oom",
        "are allowed",
    ),
    "memory": ("raise MemoryError('none left')", "oom", "MemoryError"),
    "wrong": ("return 1.01 * (a @ b)", "incorrect", "error bound"),
    "nan": ("return float('nan') * (a @ b)", "incorrect", "error bound"),
    "raises": ("raise RuntimeError('driver lost')", "exception", "driver lost"),
}


@pytest.fixture(autouse=True)
def _fresh(own_store):
    """Records of one test must not choose for another."""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Installs a distribution with one backend whose matmul has the given body."""

    def install(body, name="guest", head=""):
        package = tmp_path / f"{name}_plugin"
        package.mkdir()
        (package / "__init__.py").write_text(
            textwrap.dedent(f"""
            {head}
            from portable.backend import BackendBase
            from portable.device import Device, DeviceInfo
            class Guest(BackendBase):
                name, path, priority = {name!r}, "reference", 10_000
                def devices(self):
                    return [Device("cpu", DeviceInfo("guest", kind="cpu", units=1))]
            backend = Guest()
            """)
        )
        (package / "matmul.py").write_text(
            "def why_not(problem, device):\n    return []\n"
            "def configs(problem, device):\n    return [{}]\n"
            "def compile(problem, device, config):\n"
            f"    def kernel(a, b):\n        {body}\n    return kernel\n"
        )
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[portable.backends]\n{name} = {name}_plugin:backend\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        engine.refresh()
        registry.refresh()

    yield install
    monkeypatch.undo()
    for name in [n for n in sys.modules if n.startswith("guest_plugin")]:
        del sys.modules[name]
    registry.refresh()
    engine.refresh()


def _make_it_the_favourite(monkeypatch):
    """The plugin would be chosen: its expected time is the least."""
    from portable import selector

    real = selector._time
    monkeypatch.setattr(selector, "_time", lambda c: 0.0 if c.backend == "guest" else real(c))


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_costs_a_record_and_nothing_else(plugin, monkeypatch, fault):
    body, status, reason = FAULTS[fault]
    plugin(body)
    _make_it_the_favourite(monkeypatch)
    monkeypatch.setenv(trial.TIMEOUT_ENVIRONMENT, "15" if fault == "hang" else "120")
    monkeypatch.setenv(trial.MEMORY_ENVIRONMENT, "1.5" if fault == "eater" else "")
    a, b = np.ones((5, 7), np.float32), np.ones((7, 3), np.float32)
    np.testing.assert_allclose(portable.matmul(a, b), a @ b)
    (record,) = [r for r in records.default_store().records(op="matmul") if r.backend == "guest"]
    assert record.status == status
    refused = {c.name: c.refused for c in portable.explain("matmul", a, b).refused}
    assert reason in refused["guest"][0]
    with portable.using(backend="guest"), pytest.raises(PortableError, match=reason):
        portable.matmul(a, b)


def test_what_depends_on_the_shape_is_tried_too(plugin, monkeypatch):
    """Right on the gate's small cases, a crash on the very problem."""
    plugin("import os; return a @ b if a.shape != (123, 7) else os.abort()")
    _make_it_the_favourite(monkeypatch)
    a, b = np.ones((123, 7), np.float32), np.ones((7, 3), np.float32)
    np.testing.assert_allclose(portable.matmul(a, b), a @ b)
    refused = {c.name: c.refused for c in portable.explain("matmul", a, b).refused}
    assert "SIGABRT" in refused["guest"][0]


def test_a_right_plugin_is_tried_once_and_then_runs_here(plugin, monkeypatch):
    plugin("return a @ b")
    tries = []
    real = trial.isolate.run
    monkeypatch.setattr(trial.isolate, "run", lambda *a, **k: tries.append(a[0]) or real(*a, **k))
    a, b = np.ones((5, 7), np.float32), np.ones((7, 3), np.float32)
    with portable.using(backend="guest"):
        np.testing.assert_allclose(portable.matmul(a, b), a @ b)
        np.testing.assert_allclose(portable.matmul(b.T, b), b.T @ b)
        portable.matmul(a[:4], b)
    assert 1 <= len(tries) <= 2  # one per layout class


def test_an_import_error_of_a_plugin_is_its_reason(plugin):
    plugin("return a @ b", head="import nowhere_to_be_found")
    with pytest.warns(RuntimeWarning, match="nowhere_to_be_found"):
        registry.registered()
    a = np.ones((4, 4), np.float32)
    np.testing.assert_allclose(portable.matmul(a, a), a @ a)
    refused = {c.name: c.refused for c in portable.explain("matmul", a, a).refused}
    assert "nowhere_to_be_found" in refused["guest"][0]
    with pytest.raises(PortableError, match="nowhere_to_be_found"), portable.using(backend="guest"):
        portable.matmul(a, a)
    _one_record_says("nowhere_to_be_found", a)
    status = next(b for b in portable.backends() if b.name == "guest")  # what doctor shows
    assert not status.available
    assert "nowhere_to_be_found" in status.reason


def test_an_import_error_of_an_implementation_is_its_reason(plugin, tmp_path):
    plugin("return a @ b")
    file = tmp_path / "guest_plugin" / "matmul.py"
    file.write_text("import nowhere_to_be_found\n" + file.read_text())
    a = np.ones((4, 4), np.float32)
    np.testing.assert_allclose(portable.matmul(a, a), a @ a)
    refused = {c.name: c.refused for c in portable.explain("matmul", a, a).refused}
    assert "nowhere_to_be_found" in refused["guest"][0]
    _one_record_says("nowhere_to_be_found", a)


def _one_record_says(reason, a):
    """... however often the op is called and in how many processes."""
    engine.refresh()
    portable.matmul(a, a)
    portable.matmul(a[:2], a)
    found = [r for r in records.default_store().records(op="matmul") if r.backend == "guest"]
    assert [r.status for r in found] == ["exception"]
    assert reason in found[0].reason


def test_settings_of_trials_are_numbers(monkeypatch):
    monkeypatch.setenv(trial.MEMORY_ENVIRONMENT, "much")
    with pytest.raises(PortableError, match=r"PORTABLE_TRIAL_GIB is 'much' \(a number"):
        trial._memory()
    monkeypatch.setenv(trial.MEMORY_ENVIRONMENT, "2")
    assert trial._memory() == 2 << 30
    monkeypatch.setenv(trial.MEMORY_ENVIRONMENT, "")
    free = isolate.free_memory()
    assert free is None or 0 < trial._memory() <= free


def test_who_is_trusted_starts_no_process(backend, monkeypatch):
    backend(FakeBackend("byhand", {"matmul": Fake(right_matmul)}))
    monkeypatch.setattr(trial.isolate, "run", lambda *a, **k: pytest.fail("a process was started"))
    with portable.using(backend="byhand"):
        portable.matmul(np.ones((3, 3), np.float32), np.ones((3, 3), np.float32))
    with portable.using(backend="numpy"):
        portable.matmul(np.ones((3, 3), np.float32), np.ones((3, 3), np.float32))
