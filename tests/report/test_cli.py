"""`portable report` as a user calls it."""

import json

import pytest
import typer
from typer.testing import CliRunner

from portable import cli_report
from portable.records import Store
from portable.records.files import write_jsonl
from tests.report import made

app = typer.Typer()
cli_report.add_to(app)


@app.callback()
def _main() -> None:
    """With a second command the first keeps its name, as in the real program."""


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["report", *map(str, arguments)])
    if result.exit_code != code:
        raise AssertionError(f"{result.exit_code}: {result.output} {result.exception!r}")
    return " ".join(result.output.split())


@pytest.fixture
def files(tmp_path):
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    write_jsonl(old, [made.record(made.matmul(), n, 1e-3) for n in ("numpy", "torch")])
    write_jsonl(
        new, [made.record(made.matmul(), "numpy", 2e-3), made.record(made.matmul(), "torch")]
    )
    return old, new


def test_every_file_is_written(files, tmp_path):
    _, new = files
    names = {k: tmp_path / f"report.{k}" for k in ("html", "csv", "json", "md")}
    output = run(
        new, *(a for k, f in names.items() for a in (f"--{k}", f)), "--hardware", "H200 SXM"
    )
    for file in names.values():
        assert file.stat().st_size > 500
        assert "is written" in output
    assert json.loads(names["json"].read_text())["sources"] == ["new.jsonl"]


def test_a_regression_sets_the_exit_code_only_on_demand(files):
    old, new = files
    assert "slower" in run(new, "--baseline", old)
    assert "1 regressions" in run(new, "--baseline", old, "--fail-on-regression", code=3)
    run(old, "--baseline", old, "--fail-on-regression")
    run(new, "--fail-on-regression", code=2)


def test_records_of_several_machines_merge(files, tmp_path):
    other = tmp_path / "gpu.jsonl"
    write_jsonl(other, [made.record(made.matmul(), "torch", 1e-5, made.H100, machine="gg")])
    output = run(files[1], other)
    assert "2 devices" in output


def test_a_store_is_read(tmp_path):
    store = Store(tmp_path / "records.db")
    store.add([made.record(made.matmul())])
    store.close()
    assert "1 measurement of 1 problem" in run(tmp_path / "records.db")


def test_bad_lines_are_told_and_left_out(files):
    with files[1].open("a") as file:
        file.write("{broken\n")
    assert "line 3 was left out" in run(files[1])


def test_a_workload_weighs(files, tmp_path):
    suite = tmp_path / "mine.jsonl"
    suite.write_text(
        '{"suite":"mine","kind":"capture","source":["test"],"weight_unit":"step","assumptions":[]}\n'
        '{"op":"matmul","operands":{"a":"f32[64x512]","b":"f32[512x512]"},"weight":7,"share":0.8,'
        '"note":"mlp"}\n{"unmapped":"topk","what":{},"weight":1,"share":0.2,"note":"router"}\n'
    )
    out = tmp_path / "r.json"
    output = run(files[1], "--workload", suite, "--json", out)
    assert "mine" in output
    totals = json.loads(out.read_text())["rankings"][0]["totals"]
    assert {t["candidate"]: t["time"] for t in totals}["torch"] == pytest.approx(7e-3)


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_file_that_is_none_is_one_clear_error(name, tmp_path, monkeypatch):
    from portable.errors import RecordError

    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["report", name])
    assert isinstance(result.exception, RecordError)
    assert "is no file" in str(result.exception)


def test_what_was_not_measured_of_a_workload_enters_no_comparison(files, tmp_path):
    """One of two problems was measured: sums are of that one everywhere; all of it is apart."""
    suite = tmp_path / "mine.jsonl"
    suite.write_text(
        '{"suite":"mine","kind":"llm-inference","source":["test"],"weight_unit":"request",'
        '"tokens":100,"assumptions":[]}\n'
        '{"op":"matmul","operands":{"a":"f32[64x512]","b":"f32[512x512]"},"weight":2,"share":0.3}\n'
        '{"op":"matmul","operands":{"a":"f32[640x512]","b":"f32[512x512]"},"weight":4,"share":0.7,'
        '"cpu":{"operands":{"a":"f32[320x512]","b":"f32[512x512]"}}}\n'
    )
    prices = tmp_path / "p.csv"
    prices.write_text("device,price_per_hour\ncpu-amd-zen5,1\nH200 SXM,2\n")
    out, page, text = tmp_path / "r.json", tmp_path / "r.html", tmp_path / "r.md"
    arguments = ["--workload", suite, "--hardware", "H200 SXM", "--prices", prices]
    run(files[1], *arguments, "--json", out, "--html", page, "--md", text)
    costs = {c["part"] + c["device"][:4]: c for c in json.loads(out.read_text())["costs"]}
    assert costs["the measured partAMD "]["not_in_the_cost"].startswith("30% of the workload")
    assert (
        costs["the measured partH200"]["not_in_the_cost"]
        == costs["the measured partAMD "]["not_in_the_cost"]
    )
    whole = costs["all of itH200"]
    assert whole["time"] > costs["the measured partH200"]["time"]
    assert whole["not_in_the_cost"] == "70% scaled down to a small CPU"
    assert "stand for 30% of the workload" in page.read_text()
    assert "mine, all of it" in page.read_text()
    assert "mine, all of it" in text.read_text()
