"""The plugin contract: lazy, harmless when broken, and whole in what it may bring."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import portable
from portable import registry
from portable.backend import API_VERSION
from portable.errors import BackendMissingError, PluginError, UnknownNameError

BACKEND = """
from portable.backend import BackendBase
from portable.device import Device, DeviceInfo

class B(BackendBase):
    name, path = "{name}", "reference"
    requires = {requires!r}
    distributions = ()
    def devices(self):
        return (Device("cpu", DeviceInfo("cpu", kind="cpu")),)

backend = B()
"""
MATMUL = """
import fakelib
import numpy as np

def why_not(problem, device):
    return []

def configs(problem, device):
    return [{}]

def compile(problem, device, config):
    return lambda a, b: np.asarray(np.matmul(a, b))
"""
A = np.ones((3, 3), np.float32)


def status(name):
    return next(b for b in portable.backends() if b.name == name)


def test_listing_imports_no_library_of_a_plugin(site):
    site.package("fakelib", __init__="")
    text = BACKEND.format(name="lazy", requires=("fakelib",))
    site.package("portable_lazy", __init__=text, matmul=MATMUL)
    site.distribution("portable-lazy", lazy="portable_lazy:backend")
    assert status("lazy").available
    assert registry.backend("lazy").ops() == ["matmul"]
    assert "fakelib" not in sys.modules
    with portable.using(backend="numpy"):
        portable.matmul(A, A)
    assert "fakelib" not in sys.modules
    with portable.using(backend="lazy"):
        assert portable.matmul(A, A)[0, 0] == 3
    assert "fakelib" in sys.modules


def test_a_missing_library_is_told_with_its_install_line(site):
    text = BACKEND.format(name="far", requires=("fakelib",)) + "B.install = 'pip install fakelib'\n"
    site.package("portable_far", __init__=text)
    site.distribution("portable-far", far="portable_far:backend")
    found = status("far")
    assert not found.available
    assert (found.reason, found.install) == ("fakelib is not installed", "pip install fakelib")
    with pytest.raises(BackendMissingError, match="pip install fakelib"):
        registry.backend("far")


def test_a_broken_plugin_breaks_nobody_else(site):
    site.package("portable_broken", __init__="import no_such_library_at_all\n")
    with pytest.warns(RuntimeWarning, match="backend 'broken' .* is left out: ModuleNotFoundError"):
        site.distribution("portable-broken", broken="portable_broken:backend")
    assert portable.matmul(A, A)[0, 0] == 3
    found = status("broken")
    assert not found.available
    assert found.reason == "ModuleNotFoundError: No module named 'no_such_library_at_all'"
    assert found.origin == "portable-broken: portable_broken:backend"
    with pytest.raises(PluginError, match="'broken' .* is broken") as error:
        portable.using(backend="broken")
    assert isinstance(error.value.__cause__, ModuleNotFoundError)


def test_doctor_shows_a_broken_plugin(site, monkeypatch):
    from rich.console import Console
    from typer.testing import CliRunner

    from portable import cli

    monkeypatch.setattr(cli, "console", Console(width=300, highlight=False))
    site.package("portable_broken", __init__="raise ValueError('no licence found')\n")
    with pytest.warns(RuntimeWarning, match="no licence found"):
        site.distribution("portable-broken", broken="portable_broken:backend")
    shown = CliRunner().invoke(cli.app, ["doctor"])
    assert shown.exit_code == 0, shown.output
    assert "ValueError: no licence found" in shown.output


def test_a_broken_op_is_refused_with_its_error(site):
    site.package("portable_half", __init__=BACKEND.format(name="half", requires=()), matmul="1/0\n")
    site.distribution("portable-half", half="portable_half:backend")
    refused = {c.name: c.refused for c in portable.explain("matmul", A, A).refused}
    assert "ZeroDivisionError: division by zero" in refused["half"][0]


def test_two_plugins_of_one_name_are_an_error_that_names_both(site):
    for package in ("portable_one", "portable_two"):
        site.package(package, __init__=BACKEND.format(name="twin", requires=()))
    site.distribution("portable-one", twin="portable_one:backend")
    with pytest.warns(RuntimeWarning, match="'twin'"):
        site.distribution("portable-two", twin="portable_two:backend")
    with pytest.raises(PluginError) as error:
        registry.backend("twin")
    assert "portable-one: portable_one:backend" in str(error.value)
    assert "portable-two: portable_two:backend" in str(error.value)


def test_another_api_version_is_refused_with_both_versions(site):
    text = BACKEND.format(name="old", requires=()) + "B.api_version = 99\n"
    site.package("portable_old", __init__=text)
    with pytest.warns(RuntimeWarning, match="API version 99"):
        site.distribution("portable-old", old="portable_old:backend")
    with pytest.raises(
        PluginError, match=f"API version 99; this portable has version {API_VERSION}"
    ):
        registry.backend("old")


def test_a_plugin_brings_a_device_with_arrays_of_its_own(toy):
    import toylib

    assert [d.id for d in portable.devices()] == ["cpu", "toy:0"]
    x = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    y = portable.softmax(toylib.asarray(x), axis=1)
    assert type(y) is toylib.Array
    with portable.using(backend="numpy"):
        expected = portable.softmax(x, axis=1)
    assert np.allclose(toylib.to_numpy(y), expected, atol=1e-6)
    refused = portable.explain("softmax", toylib.asarray(x), axis=1).refused
    assert any("the data is on toy:0" in r for c in refused for r in c.refused)


def test_it_brings_hardware_entries(toy):
    spec = portable.hardware("Toy Accelerator 1")
    assert (spec.key, spec.bandwidth) == ("toy-accelerator-1", 50e9)
    (device,) = (d for d in portable.devices() if d.id == "toy:0")
    assert device.spec.key == "toy-accelerator-1"
    sol = portable.speed_of_light("softmax", (1024, 1024), hardware="Toy Accelerator 1")
    assert sol.time == pytest.approx(2 * 4 * 1024 * 1024 / 50e9)
    toy.uninstall("portable-toy")
    with pytest.raises(UnknownNameError):
        portable.hardware("Toy Accelerator 1")
    assert [d.id for d in portable.devices()] == ["cpu"]


def test_a_contest_runs_on_its_device_with_every_config(toy):
    from portable import cases
    from portable.contest import contest

    problem = cases.problem_of_shapes(registry.op("softmax"), [(16, 64)], "float32", {"axis": 1})
    result = contest(problem, device="toy:0", budget=0.05, configs=None)
    assert {(r.backend, r.config["lanes"]) for r in result.records if r.ok} == {
        ("toy", 4), ("toy", 1),
    }  # fmt: skip


def records_of(backend, op="softmax"):
    from portable import cases
    from portable.contest import contest

    problem = cases.problem_of_shapes(registry.op(op), [(16, 64)], "float32", {"axis": 1})
    device = "toy:0" if backend == "toy" else "cpu"
    return contest(problem, device=device, budget=0.05, backends=[backend]).records


def write_priors(site, records, name="portable_toy"):
    import json

    real = site.folder / name
    if real.is_symlink():  # a copy that may be changed
        import shutil

        source = real.resolve()
        real.unlink()
        shutil.copytree(source, real)
    folder = real / "priors" / "test-machine"
    folder.mkdir(parents=True)
    lines = "".join(json.dumps(r.to_json()) + "\n" for r in records)
    (folder / "softmax.jsonl").write_text(lines)


def test_it_brings_priors_for_itself(toy):
    import toylib

    from portable import engine, evidence

    write_priors(toy, [r for r in records_of("toy") if r.ok])
    engine.refresh()
    assert any(r.backend == "toy" for r in evidence.priors("softmax"))
    x = toylib.asarray(np.ones((16, 64), np.float32))
    chosen = portable.explain("softmax", x, axis=1).candidates[0]
    assert chosen.name == "toy"
    assert "prior" in chosen.estimate.evidence


def test_priors_of_other_backends_or_broken_ones_are_left_out_with_a_warning(toy):
    from portable import engine, evidence

    write_priors(toy, [r for r in records_of("numpy") if r.ok])
    engine.refresh()
    with pytest.warns(RuntimeWarning, match="records of other backends: numpy"):
        assert not [r for r in evidence.priors("softmax") if r.device.id == "toy:0"]
    (toy.folder / "portable_toy/priors/test-machine/softmax.jsonl").write_text("{}\n")
    engine.refresh()
    with pytest.warns(RuntimeWarning, match=r"priors of softmax of backend 'toy' \(portable-toy"):
        evidence.priors("softmax")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[amd-mi300x]\nname = 'x'\narchitecture = 'toy-one'\n", "amd-mi300x is in devices/"),
        ("not toml", "is not valid TOML"),
        ("", "holds no devices/"),
    ],
)
def test_bad_hardware_entries_refuse_the_plugin_and_nothing_else(site, text, said):
    site.package("portable_bad", __init__=BACKEND.format(name="bad", requires=()))
    folder = site.folder / "portable_bad" / "hardware" / "devices"
    folder.mkdir(parents=True)
    (folder / "bad.toml").write_text(text)
    with pytest.warns(RuntimeWarning, match=said):
        site.distribution("portable-bad", bad="portable_bad:backend")
    assert not status("bad").available
    assert portable.hardware("MI300X").key == "amd-mi300x"


def test_records_of_a_backend_that_is_gone_are_kept_and_ignored(toy):
    from portable import evidence, records

    store = records.default_store()
    store.add([r for r in records_of("toy") if r.ok])
    toy.uninstall("portable-toy")
    (kept,) = [r for r in records.default_store().records(op="softmax") if r.backend == "toy"]
    assert "backend 'toy' is not usable here" in evidence.why_stale(kept)
    assert "toy" not in [b.name for b in portable.backends()]
    assert portable.softmax(np.ones((2, 3), np.float32), axis=1)[0, 0] == pytest.approx(1 / 3)


def test_conformance_on_a_device_checks_streams_and_waiting(toy):
    from portable.conformance import conform

    result = conform("toy", level="full", dtypes=["float32"])
    assert result.passed, str(result)
    ran = {o.case for o in result.outcomes if o.status == "passed"}
    assert {"probe: streams", "probe: wait", "probe: dispatch", "probe: configs"} <= ran


def on_a_stream_of_its_own(x):
    import toylib

    with toylib.stream():
        y = toylib.asarray(np.exp(x.data) / np.exp(x.data).sum(1, keepdims=True))
    return y


def finished_by_a_thread(x):
    """Reading the result waits for a thread that synchronize() knows nothing of."""
    import threading
    import time

    import toylib

    y = toylib.Array(np.empty(x.shape, x.dtype))

    def work():
        time.sleep(0.03)
        y.data[...] = np.exp(x.data) / np.exp(x.data).sum(1, keepdims=True)

    thread = threading.Thread(target=work)
    thread.start()
    toylib.DEFAULT.add(lambda: None)
    y.thread = thread
    return y


@pytest.mark.parametrize(
    ("kernel", "check"), [(on_a_stream_of_its_own, "streams"), (finished_by_a_thread, "wait")]
)
def test_work_hidden_from_the_current_stream_is_found(toy, monkeypatch, kernel, check):
    import toylib
    from portable_toy import softmax

    from portable.conformance import plan

    monkeypatch.setattr(softmax, "compile", lambda problem, device, config: kernel)
    plain = toylib.to_numpy

    def reading_waits(array):
        if getattr(array, "thread", None) is not None:
            array.thread.join()
        return plain(array)

    monkeypatch.setattr(toylib, "to_numpy", reading_waits)
    (probe,) = (
        t for t in plan("toy", level="full", dtypes=["float32"]) if t.name == f"probe: {check}"
    )
    outcome = probe.run()
    assert (outcome.status, outcome.check) == ("failed", check), outcome.reasons
