"""Projections from kin by hand, and prices."""

import pytest

from portable import hwdb, report
from portable.errors import RecordError, UnknownNameError
from portable.report import prices
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
    assert built.studies[0].platforms == (built.places[0].label,)
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
    bill = prices.bill(2.0, 1000.0, found, "", spec)
    assert bill.cost == pytest.approx(3.6 * 2 / 3600)
    assert bill.cost_per_million_tokens == pytest.approx(3.6 * 2 / 3600 * 1000)
    assert bill.energy == pytest.approx(spec.power * 2)
    assert bill.currency == "EUR"
    own = prices.bill(2.0, 0.0, found, "my box", None)
    assert (own.cost, own.cost_per_million_tokens, own.energy) == (None, None, 800.0)


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


def test_prices_are_on_the_page():
    built = build(
        [made.record(A, "torch", 5e-5, made.H100)], ["H200 SXM"],
        prices=[prices.Price("x", "nvidia-h200-sxm", 3.5, None, "EUR")],
    )  # fmt: skip
    assert "EUR" in report.render(built)
