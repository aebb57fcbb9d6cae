from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from portable import cases, registry, workloads
from portable.errors import RecordError
from portable.records import Store, p3, read_jsonl, t4, write_jsonl
from portable.records.foreign import Context
from portable.workloads import flashinfer
from tests.records.make import problem, record

pytestmark = pytest.mark.usefixtures("own_store")
HUB = Path(__file__).parent.parent.parent / "../shared/hub"
MIXED = [
    record(1),
    record(2, status="crash", samples=(), reason="SIGSEGV"),
    record(3, status="bound_violated"),
    record(4, status="incorrect", samples=()),
    record(5, runtime="pocl", status="hang", samples=()),
]


def real_problem(op="matmul", shapes=((4, 8), (8, 2)), dtype="float32", **params):
    return cases.problem_of_shapes(registry.op(op), shapes, dtype, params)


# --- T4 ------------------------------------------------------------------------------------------


def test_t4_keeps_our_records_whole_and_has_the_standard_fields(tmp_path):
    assert t4.write(tmp_path / "r.json", MIXED) == 5
    loaded = t4.load(tmp_path / "r.json")
    assert loaded.records == MIXED
    assert not loaded.errors
    data = json.loads((tmp_path / "r.json").read_text())
    assert data["schema_version"] == "1.0.0"
    first = data["results"][0]
    assert {"configuration", "times", "invalidity", "correctness"} <= set(first), "required there"
    assert first["times"]["runtimes"] == pytest.approx([3e-3, 1e-3, 2e-3]), "milliseconds"
    assert first["times"]["compilation_time"] == pytest.approx(500.0)
    assert first["measurements"] == [{"name": "time", "value": pytest.approx(2e-3), "unit": "ms"}]
    assert [r["invalidity"] for r in data["results"]] == [
        "correct", "runtime", "correct", "correctness", "timeout",
    ]  # fmt: skip
    assert [r["correctness"] for r in data["results"]] == [1.0, 0.0, 1.0, 0.0, 0.0]


THEIRS = {
    "timestamp": "2023-12-22 09:54:05.502007+00:00",
    "configuration": {"block_size_x": 16, "use_shmem": 0},
    "times": {"compilation": 918.6, "runtimes": [4.0, 3.0, 5.0]},
    "invalidity": "correct", "correctness": 1, "measurements": [], "objectives": ["time"],
}  # fmt: skip


def write_t4(path, *results):
    path.write_text(json.dumps({"schema_version": "1.0.0", "results": list(results)}))
    return path


def test_t4_of_kernel_tuner_needs_what_the_format_does_not_say(tmp_path):
    path = write_t4(tmp_path / "k.json", THEIRS)
    assert "neither problem nor device" in t4.load(path).errors[0][1]
    context = Context(problem(8), "AMD Instinct MI250X", "opencl")
    (found,) = t4.load(path, context).records
    assert found.samples == (0.004, 0.003, 0.005)
    assert found.config == {"block_size_x": 16, "use_shmem": 0}
    assert (found.device.name, found.backend) == ("AMD Instinct MI250X", "opencl")
    assert found.created == "2023-12-22T09:54:05.502007+00:00"


def test_t4_statuses_units_and_bad_entries(tmp_path):
    failed = {**THEIRS, "invalidity": "compile", "times": {}}
    micro = {**THEIRS, "times": {}, "measurements": [{"name": "time", "value": 7, "unit": "us"}]}
    empty = {**THEIRS, "times": {}}
    odd = {**THEIRS, "invalidity": "perfect"}
    huge = {**THEIRS, "times": {"runtimes": [1.0] * 20_000}}
    path = write_t4(tmp_path / "k.json", failed, micro, empty, odd, huge, "text", THEIRS)
    loaded = t4.load(path, Context())
    assert [r.status for r in loaded.records] == ["compile_error", "ok", "ok"]
    assert loaded.records[1].samples == (7e-6,)
    assert [number for number, _ in loaded.errors] == [3, 4, 5, 6]
    assert "invalidity is 'perfect'" in loaded.errors[1][1]


@pytest.mark.parametrize("text", ["", "[]", '{"results": 3}', "[" * 10_000])
def test_files_that_are_no_t4(tmp_path, text):
    path = tmp_path / "k.json"
    path.write_text(text)
    with pytest.raises(RecordError):
        t4.load(path)


@pytest.mark.skipif(not HUB.is_dir(), reason="the benchmark hub's files are not here")
def test_t4_reads_a_published_file():
    context = Context(problem(8), "W6600", "hip")
    loaded = t4.load(HUB / "convolution_W6600_T4.json.gz", context)
    assert not loaded.errors
    data = t4._results(HUB / "convolution_W6600_T4.json.gz")
    assert len(loaded.records) == len(data) > 4000
    assert sum(r.ok for r in loaded.records) == sum(r["invalidity"] == "correct" for r in data)
    best = min((r for r in loaded.records if r.ok), key=lambda r: r.time)
    assert 1e-5 < best.time < 1


# --- P3 ------------------------------------------------------------------------------------------


def test_p3_keeps_our_records_whole_and_has_their_columns(tmp_path):
    assert p3.write(tmp_path / "r.csv", MIXED) == 5
    assert p3.load(tmp_path / "r.csv").records == MIXED
    with (tmp_path / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["fom"] for row in rows] == [repr(2e-6), "", "", "", ""]
    assert rows[4]["application"] == "numpy[pocl]"
    assert rows[0]["platform"] == record().device.name


def test_p3_tables_of_others(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text(
        "problem,application,platform,fom\nx,app,A100,2.5\nx,app,MI250X,0.0\nx,app,W6600,NaN\n"
        "x,app,PVC,-3\nx,app,CPU,fast\n"
    )
    loaded = p3.load(path, Context(unit="ms"))
    assert [(r.device.name, r.status) for r in loaded.records] == [
        ("A100", "ok"), ("MI250X", "skipped"), ("W6600", "skipped"),
    ]  # fmt: skip
    assert loaded.records[0].samples == (0.0025,)
    assert loaded.records[0].problem.param("name") == "x"
    assert [number for number, _ in loaded.errors] == [5, 6]
    path.write_text("a,b\n1,2\n")
    with pytest.raises(RecordError, match="no column application, fom, platform, problem"):
        p3.load(path)


# --- FlashInfer-Trace ----------------------------------------------------------------------------


def folder(root, traces=(), runs=()):
    definitions = {
        "gemm_n4096_k4096": {
            "op_type": "gemm",
            "axes": {"M": {"type": "var"}, "N": {"type": "const", "value": 256},
                     "K": {"type": "const", "value": 128}},
            "inputs": {"A": {"shape": ["M", "K"], "dtype": "float16"},
                       "B": {"shape": ["N", "K"], "dtype": "float16"}},
            "outputs": {"C": {"shape": ["M", "N"], "dtype": "float16"}},
        },
        "rmsnorm_h64": {
            "op_type": "rmsnorm",
            "axes": {"batch": {"type": "var"}, "h": {"type": "const", "value": 64}},
            "inputs": {"hidden_states": {"shape": ["batch", "h"], "dtype": "bfloat16"},
                       "weight": {"shape": ["h"], "dtype": "bfloat16"}},
            "outputs": {"output": {"shape": ["batch", "h"], "dtype": "bfloat16"}},
        },
        "moe": {"op_type": "moe", "axes": {}, "inputs": {}, "outputs": {}},
    }  # fmt: skip
    for name, data in definitions.items():
        path = root / "definitions" / data["op_type"] / f"{name}.json"
        path.parent.mkdir(parents=True)
        evil = "import os; os.abort()\ndef run(A, B): pass"
        path.write_text(json.dumps({"name": name, "reference": evil, **data}))
    for kind, rows in (("traces", traces), ("workloads", runs)):
        (root / kind).mkdir()
        (root / kind / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return root


RUNS = [
    {"definition": "gemm_n4096_k4096", "workload": {"axes": {"M": m}, "inputs": {}, "uuid": str(m)}}
    for m in (1, 32)
] + [{"definition": "rmsnorm_h64", "workload": {"axes": {"batch": 7}, "inputs": {}, "uuid": "7"}}]


def test_flashinfer_workloads_become_ours(tmp_path):
    suite = workloads.load(str(folder(tmp_path / "trace", runs=RUNS)))
    assert [(e.op, e.weight) for e in suite.entries] == [
        ("matmul", 0.5), ("matmul", 0.5), ("rms_norm", 1.0),
    ]  # fmt: skip
    assert suite.entries[0].operands["b"].layout == "transposed", "their B is (n, k)"
    assert workloads.unmapped(suite) == {"moe": pytest.approx(1 / 3)}
    assert len(workloads.problems(suite, "full")) == 3


def test_flashinfer_traces_become_records(tmp_path):
    environment = {"hardware": "NVIDIA_B200", "libs": {"torch": "2.8"}}
    done = {"environment": environment, "timestamp": "2025-10-01T00:00:00", "log": ""}
    good = {
        **RUNS[1],
        "solution": "s1",
        "evaluation": {
            **done,
            "status": "PASSED",
            "correctness": {},
            "performance": {"latency_ms": 0.5},
        },
    }
    bad = {**RUNS[1], "solution": "s2", "evaluation": {**done, "status": "TIMEOUT"}}
    unknown = {**good, "definition": "nowhere"}
    odd = {**good, "evaluation": {**done, "status": "SHINY"}}  # fmt: skip
    loaded = flashinfer.load_records(folder(tmp_path, traces=[good, bad, unknown, odd, RUNS[0]]))
    first, second = loaded.records
    assert first.samples == (0.0005,)
    assert (first.device.name, first.versions) == ("NVIDIA_B200", {"torch": "2.8"})
    assert first.problem["a"].shape == (32, 128)
    assert (second.status, second.samples) == ("hang", ())
    assert [number for number, _ in loaded.errors] == [3, 4]


def test_flashinfer_folders_we_write_are_complete_and_come_back(tmp_path):
    records = [
        record(problem=real_problem()),
        record(problem=real_problem(), status="exception", samples=(), reason="no"),
        record(problem=real_problem("softmax", [(4, 8)], "bfloat16", axis=0), runtime="pocl"),
    ]
    homeless = [record(problem=real_problem(dtype="float64")), record(status="skipped", samples=())]
    assert flashinfer.write_records(tmp_path, [*records, *homeless]) == 3
    found = flashinfer.load_records(tmp_path)
    assert sorted(r.digest for r in found.records) == sorted(r.digest for r in records)
    definitions = [json.loads(p.read_text()) for p in tmp_path.rglob("definitions/*/*.json")]
    assert len(definitions) == 2
    for data in definitions:
        names = {axis for spec in data["inputs"].values() for axis in spec["shape"]}
        assert names <= set(data["axes"])
        compile(data["reference"], "reference", "exec")
        assert "def run(" in data["reference"]
    for path in tmp_path.rglob("solutions/*/*.json"):
        data = json.loads(path.read_text())
        assert data["definition"] in {d["name"] for d in definitions}
        compile(data["sources"][0]["content"], "source", "exec")
    lines = [p.read_text().splitlines() for p in tmp_path.rglob("traces/*/*.jsonl")]
    traces = [json.loads(line) for file in lines for line in file]
    for trace in traces:
        passed = trace["evaluation"]["status"] == "PASSED"
        assert ("performance" in trace["evaluation"]) == passed
        assert ("correctness" in trace["evaluation"]) == passed


def test_the_reference_we_write_computes_the_problem(tmp_path):
    flashinfer.write_records(tmp_path, [record(problem=real_problem())])
    (path,) = tmp_path.rglob("definitions/*/*.json")
    scope = {}
    exec(compile(json.loads(path.read_text())["reference"], "reference", "exec"), scope)
    import numpy as np

    a, b = np.ones((4, 8), "f4"), np.ones((8, 2), "f4")
    assert np.array_equal(scope["run"](a, b), a @ b)


def test_a_folder_without_definitions_is_refused(tmp_path):
    with pytest.raises(RecordError, match="no definitions"):
        flashinfer.load_workload(tmp_path)
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "x.json").write_text("{")
    with pytest.raises(RecordError, match=r"x\.json: not JSON"):
        flashinfer.load_records(tmp_path)


# --- the command ---------------------------------------------------------------------------------


def run(*args):
    from typer.testing import CliRunner

    from portable.cli_records import app

    return CliRunner().invoke(app, list(map(str, args)), catch_exceptions=False)


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz", "r.json", "r.csv"])
def test_export_and_import_by_the_files_name(tmp_path, monkeypatch, name):
    Store().add(MIXED)
    done = run("export", tmp_path / name)
    assert (done.exit_code, "5 records in" in done.output) == (0, True)
    monkeypatch.setenv("PORTABLE_DB", str(tmp_path / "other.db"))
    done = run("import", tmp_path / name)
    assert done.exit_code == 0
    assert "5 records, 5 of them new" in done.output.replace("\n", " ")
    assert Store().records() == MIXED
    assert "0 of them new" in run("import", tmp_path / name).output.replace("\n", " ")


def test_export_filters_and_says_what_has_no_place(tmp_path):
    Store().add([record(problem=real_problem()), record(problem=real_problem(dtype="float64"))])
    run("export", tmp_path / "none.jsonl", "--op", "softmax")
    assert read_jsonl(tmp_path / "none.jsonl") == []
    done = run("export", tmp_path / "folder", "--format", "flashinfer")
    assert "1 records have no place" in done.output
    done = run("import", tmp_path / "folder")
    assert "1 records, 0 of them new" in done.output.replace("\n", " ")


def test_import_of_kernel_tuner_results_with_its_context(tmp_path):
    path = write_t4(tmp_path / "k.json", THEIRS)
    refused = run("import", path)
    assert refused.exit_code == 1
    assert "name them" in refused.output
    done = run("import", path, "--op", "matmul", "--shape", "4x8", "--shape", "8x2",
               "--device", "MI250X", "--backend", "hip")  # fmt: skip
    assert done.exit_code == 0
    (found,) = Store().records(op="matmul")
    assert found.problem == real_problem()
    run("import", path, "--op", "their_convolution", "--shape", "4096x4096", "--device", "MI250X")
    assert Store().records(op="their_convolution")[0].problem["x0"].shape == (4096, 4096)
    for wrong in (["--shape", "4xx"], ["--unit", "days"], ["--format", "xml"]):
        assert run("import", path, "--op", "theirs", *wrong).exit_code == 2


def test_merge_and_check(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", MIXED[:3])
    write_jsonl(tmp_path / "b.jsonl", MIXED[2:])
    assert "5 records of 2 files" in run(
        "merge", tmp_path / "m.jsonl", tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    ).output.replace("\n", " ")
    good = run("check", tmp_path / "m.jsonl")
    assert good.exit_code == 0
    assert "5 records, 0 duplicates" in good.output.replace("\n", " ")
    assert "ok 1, crash 1" in good.output
    assert "0 hold on this machine now" in good.output
    with (tmp_path / "m.jsonl").open("a") as file:
        file.write("{}\n")
    bad = run("check", tmp_path / "m.jsonl")
    assert bad.exit_code == 1
    assert "entry 6" in bad.output.replace("\n", " ")


def test_check_of_the_store_counts_what_holds_here():
    from portable import evidence
    from portable.records import DeviceKey, source_hash

    entry = registry.registered()["numpy"]
    backend = entry.backend
    device = backend.devices()[0]
    valid = record(
        problem=real_problem(), backend="numpy", device=DeviceKey.of(device),
        versions=evidence.versions("numpy"),
        source_hash=source_hash(registry.implementation(entry, "matmul")),
    )  # fmt: skip
    Store().add([valid, replace(valid, source_hash="old"), record(problem=problem(op="gone"))])
    done = run("check")
    assert "1 hold on this machine now" in done.output, done.output
    assert "source has changed" in done.output.replace("\n", " ")
