"""Calibration and benchmarks: roofs are measured, kept, compared with the datasheet, and used."""

from __future__ import annotations

import json
import os
import time
import types

import numpy as np
import pytest

import portable
from portable import benching, calibrate, contest, engine, machine, records, rooftop
from portable.errors import DTypeError, UnknownNameError
from portable.prepare import prepare
from portable.roofline import Roofs


@pytest.fixture(autouse=True)
def _small(own_store, monkeypatch):
    """Small streams and products: what is tested is the bookkeeping, not the number."""
    monkeypatch.setattr(rooftop, "STREAM_BYTES", 8 << 20)
    monkeypatch.setattr(rooftop, "MATMUL_SIZES", (128,))
    monkeypatch.setattr(rooftop, "MATMUL_SECONDS", 0.05)
    monkeypatch.setattr(rooftop, "ROOF_DTYPES", ("float32",))


@pytest.fixture
def no_hooks(monkeypatch):
    monkeypatch.setattr(rooftop, "hooks", lambda physical: iter(()))


def test_roofs_are_measured_kept_and_shown(no_hooks):
    done = calibrate.calibrate(probes=False)
    assert done.roofs.dram > 1e8
    assert done.roofs.compute["float32/matrix"] > 1e8
    assert 0 < done.roofs.latency < 0.1
    kept = machine.device("cpu").roofs
    assert kept == done.roofs
    text = str(done)
    assert "dram" in text
    assert "launch latency" in text
    explained = portable.explain("matmul", *[np.ones((64, 64), np.float32)] * 2)
    assert explained.roof_time is not None
    assert "measured roof" in str(explained)


def test_ops_that_stream_stand_in_for_kernels_that_nobody_brings(
    no_hooks, no_products, monkeypatch
):
    """As on a GPU whose backends have no `roofs`: the memory roof is that of a sum or a product."""
    monkeypatch.setattr(rooftop, "_numpy_copy", lambda physical: [])
    done = calibrate.calibrate(probes=False)
    assert 1e8 < done.roofs.dram < 1e13
    assert done.roofs.method["dram"].endswith((" sum", " swiglu"))


def test_a_roof_above_the_datasheet_is_a_contradiction(known_machine, no_hooks, monkeypatch):
    impossible = Roofs(compute={"float32/vector": 1e18}, bandwidth={"dram": 1e15})
    monkeypatch.setattr(rooftop.Survey, "roofs", lambda survey: impossible)
    done = calibrate.calibrate(probes=False)
    assert len(done.contradictions) == 2
    assert "contradiction: float32/vector" in str(done)


@pytest.fixture
def no_products(monkeypatch):
    """Nor the gates of a product, nor conversions: what is made of samples is tested."""
    monkeypatch.setattr(rooftop, "products", list)
    monkeypatch.setattr(calibrate, "_conversions", dict)


def fake_hook(rounds):
    """A backend's micro-kernels that reach `rounds` [FLOP/s], one value each time, then the
    last one again."""

    class Hook:
        left = list(rounds)

        @classmethod
        def compute_roof(cls, device, dtype):
            if dtype != "float32":
                raise DTypeError(f"no {dtype}")
            top = cls.left.pop(0) if len(cls.left) > 1 else cls.left[0]
            return [0.9 * top, top]

        @staticmethod
        def stream(device, kind, nbytes):
            return [7e14]

    return lambda physical: iter([("fake", Hook, physical.routes[0][1])])


def test_micro_kernels_of_backends_are_used(no_products, monkeypatch):
    monkeypatch.setattr(rooftop, "hooks", fake_hook([5e15]))
    done = calibrate.calibrate(probes=False)
    assert done.roofs.compute["float32/vector"] == 5e15
    assert done.roofs.compute["float32/matrix"] == 5e15  # a product may use the vector unit
    assert done.roofs.dram == 7e14
    assert done.roofs.method["float32/vector"] == "fake FMA"


def test_a_roof_is_the_best_of_rounds_that_are_spread_out(no_products, monkeypatch):
    """The first two rounds are slowed by somebody: the later ones agree, and settle it."""
    monkeypatch.setattr(rooftop, "hooks", fake_hook([2e15, 3e15, 5e15, 4.9e15]))
    monkeypatch.setattr(rooftop.Neighbours, "share", lambda self: 0.0)
    done = calibrate.calibrate(probes=False)
    assert done.roofs.compute["float32/vector"] == 5e15
    assert "float32/vector" not in done.disturbed
    assert machine.device("cpu").roofs.compute["float32/vector"] == 5e15


def test_a_roof_that_no_second_round_confirms_is_disturbed(no_products, monkeypatch):
    monkeypatch.setattr(rooftop, "hooks", fake_hook([2e15, 3e15, 5e15, 4e15, 3e15, 4.5e15, 1e15]))
    done = calibrate.calibrate(probes=False)
    assert done.roofs.compute["float32/vector"] == 5e15
    assert "of 6 rounds reached 5e+06, 4.5e+06, 4e+06, 3e+06" in done.disturbed["float32/vector"]
    assert "fake FMA (disturbed)" in str(done)
    assert "disturbed: float32/vector: the best of 6 rounds" in str(done)


def test_a_roof_far_below_the_one_before_is_told(no_products, monkeypatch):
    monkeypatch.setattr(rooftop.Neighbours, "share", lambda self: 0.0)
    monkeypatch.setattr(rooftop, "hooks", fake_hook([5e15]))
    assert not calibrate.calibrate(probes=False).lower
    monkeypatch.setattr(rooftop, "hooks", fake_hook([4e15]))
    done = calibrate.calibrate(probes=False)
    assert done.roofs.compute["float32/vector"] == 4e15
    assert any(line.startswith("float32/vector: 4e+06 GFLOP/s, 5e+06 on 2") for line in done.lower)
    assert "lower than before: float32/vector" in str(done)


def test_others_at_work_are_told(no_hooks, no_products, monkeypatch):
    monkeypatch.setattr(rooftop.Neighbours, "share", lambda self: 0.6)
    done = calibrate.calibrate(probes=False)
    assert "other processes used 60% of the processors" in done.disturbed["machine"]
    monkeypatch.setattr(rooftop.Neighbours, "share", lambda self: None)
    assert "machine" not in calibrate.calibrate(probes=False).disturbed


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="needs the ticks of POSIX")
@pytest.mark.parametrize(
    ("busy", "own", "share"), [(1.0, 0.4, 0.3), (1.0, 1.0, 0.0), (1.0, 1.1, 0.0), (9.0, 0.0, 1.0)]
)
def test_neighbours_are_what_others_use(monkeypatch, tmp_path, busy, own, share):
    """In a second on two processors; our own work is not theirs."""
    used, now = types.SimpleNamespace(user=5.0, system=1.0), [50.0]

    def count(seconds):
        ticks = round(seconds * os.sysconf("SC_CLK_TCK"))
        (tmp_path / "stat").write_text(f"cpu  {ticks} 0 0 7777 88 0 0 0 0 0\ncpu0 1 2 3\n")

    monkeypatch.setattr(rooftop, "Path", lambda name: tmp_path / "stat")
    monkeypatch.setattr(rooftop, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(
        rooftop, "os",
        types.SimpleNamespace(sysconf=os.sysconf, times=lambda: used, cpu_count=lambda: 2),
    )  # fmt: skip
    count(100.0)
    watch = rooftop.Neighbours()
    count(100.0 + busy)
    used.user, now[0] = 5.0 + own, 51.0
    assert watch.share() == pytest.approx(share)
    (tmp_path / "stat").unlink()
    assert watch.share() is None


def test_probes_become_records_and_choices(no_hooks, monkeypatch):
    problems = [rooftop.square(n, "float32") for n in (512, 64, 96)]
    monkeypatch.setattr(calibrate, "probe_problems", lambda: problems)
    done = calibrate.calibrate(probes=True, budget=60.0)
    kept = records.default_store().records()
    assert done.probes == len(kept) > 1
    assert 0 < done.problems <= done.of == 3  # a busy machine may not reach them all
    assert f"of {done.problems} of {done.of} problems" in str(done)
    engine.refresh()
    from portable import explaining

    found = explaining.of_problem(rooftop.square(512, "float32"), "cpu")
    bases = {c.estimate.basis for c in found.candidates}
    assert bases & {"exact record", "neighbours"}


def test_a_spent_budget_leaves_probes_out(no_hooks, no_products):
    done = calibrate.calibrate(probes=True, budget=0.01)
    assert (done.probes, done.problems) == (0, 0)
    assert done.of > 50
    assert done.roofs.dram > 1e8  # always measured


def test_prepared_problems_have_passed_their_gates():
    problems = [rooftop.square(64, "float32"), rooftop.square(96, "float32")]
    assert contest.unchecked(problems[0])
    prepare(problems)
    assert not contest.unchecked(problems[0])
    assert not contest.unchecked(problems[1])


def test_nothing_is_prepared_after_the_deadline():
    prepare([rooftop.square(64, "float64")], deadline=time.monotonic() - 1)
    assert contest.unchecked(rooftop.square(64, "float64"))


def test_an_unknown_device_raises():
    with pytest.raises(UnknownNameError, match="device"):
        calibrate.calibrate("cuda:9")


def test_bench_measures_every_eligible_backend_and_writes(tmp_path):
    done = benching.bench(["bert-base"], ops=["layer_norm"], limit=1, budget=0.2)
    (bench,) = done.values()
    (row,) = bench.problems
    names = {contest.candidate_name(r) for r in row.result.records}
    assert {"numpy", "torch", "jax"} <= names
    assert all(r.samples for r in row.result.records if r.status == "ok")
    assert row.chosen in names
    out = tmp_path / "records.jsonl"
    count = benching.write(str(out), done.values())
    lines = out.read_text().splitlines()
    kept = [json.loads(line) for line in lines]
    run = [record for record in kept if record["status"] != "unsupported"]  # refusals say why
    assert count == len(lines)
    assert len(run) == len(row.result.records)
    assert kept[0]["problem"]["op"] == "layer_norm"
    page = tmp_path / "report.html"
    benching.write_html(str(page), list(done.values()))
    assert "<html" in page.read_text()[:500]


def test_bench_of_unknown_names_raises():
    with pytest.raises(UnknownNameError, match="workload"):
        benching.bench(["no-such-model"])
    with pytest.raises(UnknownNameError, match="op"):
        benching.bench(["bert-base"], ops=["matmull"])
    with pytest.raises(UnknownNameError, match="backend"):
        benching.bench(["bert-base"], backends=["nobody"])
