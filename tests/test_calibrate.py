"""Calibration and benchmarks: roofs are measured, kept, compared with the datasheet, and used."""

from __future__ import annotations

import json

import numpy as np
import pytest

import portable
from portable import benching, calibrate, contest, engine, machine, records
from portable.errors import DTypeError, UnknownNameError
from portable.roofline import Roofs


@pytest.fixture(autouse=True)
def _small(own_store, monkeypatch):
    """Small streams and products: what is tested is the bookkeeping, not the number."""
    monkeypatch.setattr(calibrate, "STREAM_BYTES", 8 << 20)
    monkeypatch.setattr(calibrate, "MATMUL_SIZES", (128,))


@pytest.fixture
def no_hooks(monkeypatch):
    monkeypatch.setattr(calibrate, "_hooks", lambda physical: iter(()))


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


def test_a_roof_above_the_datasheet_is_a_contradiction(no_hooks, monkeypatch):
    impossible = Roofs(compute={"float32/vector": 1e18}, bandwidth={"dram": 1e15})
    monkeypatch.setattr(calibrate, "_measure_roofs", lambda physical, say: impossible)
    done = calibrate.calibrate(probes=False)
    assert len(done.contradictions) == 2
    assert "contradiction: float32/vector" in str(done)


def test_micro_kernels_of_backends_are_used(monkeypatch):
    class Hook:
        @staticmethod
        def compute_roof(device, dtype):
            if dtype != "float32":
                raise DTypeError(f"no {dtype}")
            return [4e15, 5e15]

        @staticmethod
        def stream(device, kind, nbytes):
            return [7e14]

    monkeypatch.setattr(
        calibrate, "_hooks", lambda physical: iter([("fake", Hook, physical.routes[0][1])])
    )
    done = calibrate.calibrate(probes=False)
    assert done.roofs.compute["float32/vector"] == 5e15
    assert done.roofs.compute["float32/matrix"] == 5e15  # a product may use the vector unit
    assert done.roofs.dram == 7e14
    assert done.roofs.method["float32/vector"] == "fake FMA"


def test_probes_become_records_and_choices(no_hooks):
    done = calibrate.calibrate(probes=True, budget=4.0)
    kept = records.default_store().records()
    assert done.probes == len(kept) > 3
    engine.refresh()
    found = contest.square(512, "float32") if hasattr(contest, "square") else None
    problem = found or calibrate.square(512, "float32")
    from portable import explaining

    bases = {c.estimate.basis for c in explaining.of_problem(problem, "cpu").candidates}
    assert bases & {"exact record", "neighbours"}


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
    assert count == len(lines) == len(row.result.records)
    assert json.loads(lines[0])["problem"]["op"] == "layer_norm"
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
