"""Projections from kin by hand, and prices."""

import json
from pathlib import Path

import pytest

from portable import hwdb, report
from portable.errors import RecordError, UnknownNameError
from portable.report import bills, prices
from portable.report.export import json_data
from portable.report.weights import from_mapping
from tests.report import made

A = made.matmul(2048, 2048, 2048, "bfloat16")
W = from_mapping("w", {A: (100, "mlp")}, tokens=1000.0)


def build(records, names, **more):
    return report.build(records, workloads=[W], hardware=names, **more)


def test_projected_by_the_efficiency_of_the_same_architecture():
    records = [made.record(A, "torch", 5e-5, made.H100), made.record(A, "numpy", 0.1, machine="c")]
    built = build(records, ["H200 SXM", "MI300X", "TPU v6e"])
    seen = next(r.sol_fraction for r in built.rows if r.candidate == "torch")
    h200, mi300x, tpu = (p.rows[0] for p in built.projected)
    assert h200.basis.startswith("same architecture")
    assert h200.time == pytest.approx(h200.sol.time / seen)
    assert mi300x.basis.startswith("same kind of device")
    assert tpu.basis.startswith("any device (weak)")
    assert h200.low <= h200.time <= h200.high
    sol, time, missing = built.projected[0].totals["w"]
    assert (sol, time, missing) == (
        pytest.approx(100 * h200.sol.time), pytest.approx(100 * h200.time), 0,
    )  # fmt: skip


def test_a_dtype_without_a_peak_is_said():
    double = made.matmul(64, 64, 64, "float64")
    weights = from_mapping("w", {double: (1, "")})
    built = report.build([made.record(double)], workloads=[weights], hardware=["TPU v6e"])
    row = built.projected[0].rows[0]
    assert row.sol is None
    assert "no peak for its dtype" in row.basis
    assert built.projected[0].totals["w"][2] == 1


def test_projected_never_counts_as_measured():
    built = build([made.record(A, "torch", 5e-5, made.H100)], ["H200 SXM"])
    assert {r.place.hardware for r in built.rows} == {made.H100.hardware}
    assert [p.place for p in built.studies[0].members] == built.places
    page = report.render(built)
    assert "not measured" in page
    assert "projected, not measured" in report.summary.sentences(built)[0]


def test_unknown_hardware_is_an_error():
    with pytest.raises(UnknownNameError):
        build([made.record(A)], ["Z999"])


def test_bill_by_hand(tmp_path):
    table = tmp_path / "prices.csv"
    table.write_text("device,price_per_hour,power,currency\nH200 SXM,3.6,,EUR\nmy box,,400,\n")
    found = prices.load(table)
    spec = hwdb.get("H200 SXM")
    bill = prices.bill(2.0, from_mapping("w", {}, tokens=1000.0), found, "", spec)
    assert bill.cost == pytest.approx(3.6 * 2 / 3600)
    assert bill.cost_per_million_tokens == pytest.approx(3.6 * 2 / 3600 * 1000)
    assert bill.energy == pytest.approx(spec.power * 2)
    assert bill.currency == "EUR"
    own = prices.bill(2.0, from_mapping("w", {}), found, "my box", None)
    assert (own.cost, own.cost_per_million_tokens, own.energy) == (None, None, 800.0)
    four = prices.bill(2.0, from_mapping("w", {}, tokens=1000.0, devices=4), found, "", spec)
    assert four.cost_per_million_tokens == pytest.approx(4 * bill.cost_per_million_tokens)
    assert four.energy == pytest.approx(4 * bill.energy)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "device,price\nH200,3\n", "unknown columns price"),
        ("a.csv", "device,price_per_hour\n,3\n", "no device"),
        ("a.csv", "device,price_per_hour\nH200,cheap\n", "a number >= 0 is needed"),
        ("a.csv", "device,price_per_hour\nH200,-3\n", "a number >= 0 is needed"),
        ("a.json", "{", "no JSON"),
        ("a.json", "[3]", "no list of rows"),
    ],
)
def test_a_bad_table_says_what_is_wrong(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(RecordError, match=message):
        prices.load(tmp_path / name)


def test_costs_of_measured_and_projected_devices():
    """2 s as chosen, 1 s at best; a token costs 1/500 of the unit's share of an hour."""
    built = report.build(
        [made.record(A, "torch", 2.0), made.record(A, "numpy", 1.0)],
        workloads=[from_mapping("w", {A: (1, "")}, tokens=500.0, covered=0.8, scaled=0.25)],
        chosen={A: "torch"}, hardware=["H200 SXM"],
        prices=[prices.Price(made.LABEL, "", 3.6, 50.0, "EUR"),
                prices.Price("H200 SXM", "nvidia-h200-sxm", 7.2, None, "EUR"),
                prices.Price("B200", "nvidia-b200", 9.0, None, "EUR")],
    )  # fmt: skip
    found = bills.lines(built)
    assert [(x.runs_on, x.measured) for x in found] == [
        ("chosen by the selector", True), ("the best of each", True), ("numpy", True),
        ("projected", False),
    ]  # fmt: skip
    first = found[0].bill
    assert first.cost == pytest.approx(3.6 * 2 / 3600)
    assert first.cost_per_million_tokens == pytest.approx(3.6 * 2 / 3600 / 500 * 1e6)
    assert first.energy == pytest.approx(100.0)
    projected = built.projected[0].totals["w"][1]
    assert found[-1].bill.cost == pytest.approx(7.2 * projected / 3600)
    assert "80% of the workload" in found[0].least
    assert "25% scaled down" in found[0].least
    assert bills.unused(built) == ["B200"]
    page = report.render(built)
    assert "≥ 4 EUR" in page
    assert "also has B200" in page
    text = json.loads(json.dumps(json_data(built)))["costs"][0]
    assert text["cost_per_million_tokens"] == pytest.approx(4.0)


def test_without_prices_there_is_no_bill():
    assert bills.lines(build([made.record(A)], ["H200 SXM"])) == []


def test_the_table_of_the_docs_works_from_the_command_line(tmp_path):
    import typer
    from typer.testing import CliRunner

    from portable import cli_report, workloads
    from portable.records.files import write_jsonl

    table = tmp_path / "prices.csv"
    docs = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    table.write_text(docs.partition("```csv\n")[2].partition("```")[0], encoding="utf-8")
    problems = workloads.select(workloads.load("bert-base"), share=1.0).problems
    write_jsonl(tmp_path / "r.jsonl", [made.record(w.problem, "torch", 1.0) for w in problems])
    app = typer.Typer()
    cli_report.add_to(app)
    arguments = [
        str(tmp_path / "r.jsonl"), "--workload", "bert-base", "--prices", str(table),
        "--hardware", "H200 SXM", "--hardware", "TPU v6e", "--json", str(tmp_path / "r.json"),
    ]  # fmt: skip
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.output
    assert "energy at most" in ran.output
    found = {c["device"]: c for c in json.loads((tmp_path / "r.json").read_text())["costs"]}
    here = found[made.LABEL]
    seconds = sum(w.weight for w in problems)
    assert here["cost"] == pytest.approx(0.10 * seconds / 3600)
    assert here["cost_per_million_tokens"] == pytest.approx(here["cost"] / 384 * 1e6)
    assert here["energy_at_most"] == pytest.approx(20 * seconds)
    assert found["TPU v6e (Trillium)"]["energy_at_most"] is None  # its TDP is not known
    assert found["H200 SXM5 141GB"]["energy_at_most"] > 0
