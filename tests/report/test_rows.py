"""Rows against figures computed by hand from the record alone."""

from dataclasses import replace

import pytest

from portable import hwdb, registry, report
from portable.report.rows import build_rows, identity
from tests.report import made


def row_of(rows, candidate):
    return next(r for r in rows if r.candidate == candidate and r.headline)


@pytest.fixture
def h100():
    return made.matmul(4096, 4096, 4096, "bfloat16")


def test_figures_by_hand(h100):
    """2 * 4096^3 FLOP at 989.4 TFLOP/s; 3 * 4096^2 * 2 B at 3.35 TB/s: compute binds."""
    spec = hwdb.get("H100 SXM")
    flops, size = 2 * 4096**3, 3 * 4096**2 * 2
    sol = flops / spec.peaks["bfloat16/matrix"]
    assert sol > size / spec.bandwidth
    records = [
        made.record(h100, "torch", 250e-6, made.H100),
        made.record(h100, "triton", 200e-6, made.H100),
        made.record(h100, "cuda", 400e-6, made.H100),
    ]
    rows, (place,) = build_rows(records)
    triton = row_of(rows, "triton")
    assert place.spec is not None
    assert place.spec.name == spec.name
    assert triton.sol.time == pytest.approx(sol)
    assert triton.sol.bound_by == "compute"
    assert triton.sol_fraction == pytest.approx(sol / 200e-6)
    assert triton.mfu == pytest.approx(sol / 200e-6)
    assert triton.cost.intensity == pytest.approx(flops / size)
    assert triton.sol.ridge == pytest.approx(spec.peaks["bfloat16/matrix"] / spec.bandwidth)
    assert (triton.baseline, triton.baseline_name) == (pytest.approx(250e-6), "torch")
    expected = (250e-6 - sol) / (250e-6 + 200e-6 - 2 * sol)
    assert triton.score.value == pytest.approx(expected)
    assert row_of(rows, "torch").score.value == pytest.approx(0.5)
    cuda = row_of(rows, "cuda")
    assert cuda.gap_best == pytest.approx(2.0)
    assert cuda.application_efficiency == pytest.approx(0.5)
    assert cuda.gap_native == pytest.approx(1.6)
    assert triton.gap_native < 1


def test_measured_roof_and_launch_floor():
    small, large = made.matmul(4, 4, 4), made.matmul(64, 4096, 4096)
    rows, _ = build_rows([made.record(small, time=5e-6), made.record(large, time=0.1)])
    cost = registry.op("matmul").cost(large)
    by_problem = {r.problem: r for r in rows}
    assert by_problem[large].roof.time == pytest.approx(
        max(cost.flops / made.ROOFS["float32/vector"], cost.bytes / made.ROOFS["dram"])
    )
    assert by_problem[small].roof.bound_by == "launch"
    assert by_problem[small].roof_fraction == pytest.approx(0.2)


def test_a_cpu_counts_the_cores_in_use():
    _, (two,) = build_rows([made.record(made.matmul())])
    _, (one,) = build_rows([made.record(made.matmul(), device=replace(made.CPU, units=1))])
    assert two.spec.peaks["float32/vector"] == 2 * one.spec.peaks["float32/vector"]


def test_the_newest_record_counts():
    old = made.record(made.matmul(), time=2e-3, created="2026-01-01T00:00:00+00:00")
    new = made.record(made.matmul(), time=1e-3, created="2026-01-02T00:00:00+00:00")
    for order in ([old, new], [new, old], [old, new, new]):
        rows, _ = build_rows(order)
        assert [r.time for r in rows] == [pytest.approx(1e-3)]
        assert rows[0].older == 1


def test_the_best_config_stands_for_its_candidate():
    configs = [made.record(made.matmul(), "triton", t, config={"block_m": b})
               for b, t in ((16, 3e-3), (64, 1e-3), (128, 2e-3))]  # fmt: skip
    rows, _ = build_rows(configs)
    assert [r.config for r in rows if r.headline] == ["block_m=64"]
    assert len(rows) == 3


def test_cold_and_warm_are_not_compared():
    cold = made.record(made.matmul(), "numpy", 4e-3)
    warm = made.record(made.matmul(), "torch", 1e-3, cache="warm")
    rows, _ = build_rows([cold, warm])
    assert row_of(rows, "numpy").gap_best == 1
    assert [r.candidate for r in rows if r.headline] == ["numpy"]


def test_a_bound_violation_is_set_apart():
    honest = made.record(made.matmul(), "torch", 4e-3)
    fast = made.record(made.matmul(), "numpy", 1e-9)
    built = report.build([fast, honest])
    assert [r.candidate for r in built.violations] == ["numpy"]
    cheat, torch = (row_of(built.rows, n) for n in ("numpy", "torch"))
    assert (cheat.score.value, cheat.sol_fraction, cheat.gap_best) == (None, None, None)
    assert torch.gap_best == 1
    assert any("speed of light" in s and "wrong" in s for s in report.summary.sentences(built))


def test_warm_times_break_the_memory_bound_but_not_the_compute_bound():
    softmax = made.problem("softmax", x=(96, 512))
    rows, _ = build_rows([made.record(softmax, time=5e-7, cache="warm")])
    cost = registry.op("softmax").cost(softmax)
    assert rows[0].sol.memory_time == pytest.approx(cost.bytes / rows[0].place.spec.bandwidth)
    assert rows[0].sol.memory_time > 5e-7 > rows[0].sol.compute_time
    assert rows[0].status == "ok"
    assert rows[0].sol_fraction is None
    assert "in cache: memory bound does not hold" in rows[0].flags
    too_fast, _ = build_rows([made.record(made.matmul(), time=1e-9, cache="warm")])
    assert too_fast[0].status == "bound_violated"


def test_wrong_results_score_zero_and_are_no_best():
    wrong = made.record(made.matmul(), "opencl[pocl]", status="incorrect", reason="off")
    rows, _ = build_rows([wrong, made.record(made.matmul(), "numpy", 1e-3)])
    assert row_of(rows, "opencl[pocl]").score.value == 0
    assert row_of(rows, "opencl[pocl]").gap_best is None
    assert row_of(rows, "numpy").best_name == "numpy"


@pytest.mark.parametrize(
    ("time", "native"),
    [
        (0.5, 2.0),  # T < T_SOL: the published score is above 1
        (0.9, 1.1),  # T + T_b = 2 T_SOL: it divides by zero
        (0.5, 1.2),  # T + T_b < 2 T_SOL: it is negative
        (2.0, 0.9),  # T_b < T_SOL: it is no measure any more
    ],
)
def test_scores_stay_in_range_where_the_published_function_does_not(time, native, h100):
    rows, _ = build_rows([made.record(h100, "torch", 1.0, made.H100)])
    sol = rows[0].sol.time
    published = (native - 1) / (native + time - 2) if native + time != 2 else None
    assert published is None or not 0 <= published <= 1 or native < 1
    records = [
        made.record(h100, "torch", native * sol, made.H100, noise=0),
        made.record(h100, "triton", time * sol, made.H100, noise=0),
    ]
    rows, _ = build_rows(records)
    for row in rows:
        assert row.score.value is None or 0 <= row.score.value <= 1
    if time < 1:
        assert row_of(rows, "triton").status == "bound_violated"


def test_a_device_nobody_knows_still_has_rows():
    unknown = replace(made.H100, hardware="", name="Z999")
    rows, (place,) = build_rows([made.record(made.matmul(), time=1e-3, device=unknown)])
    assert (rows[0].sol, rows[0].gap_best, place.spec) == (None, 1.0, None)
    assert "no speed of light" in rows[0].flags
    assert place.label == "Z999"


def test_an_op_of_another_contract_version_has_no_cost():
    other = replace(made.matmul(), version=99)
    rows, _ = build_rows([made.record(other, time=1e-3)])
    assert rows[0].cost is None
    assert rows[0].ok
    assert "op or contract unknown here" in rows[0].flags
    report.render(report.build([made.record(other, time=1e-3)]))


def test_twin_machines_are_told_apart():
    _, places = build_rows([made.record(made.matmul()), made.record(made.matmul(), machine="bb")])
    assert len({p.label for p in places}) == 2


def test_identity_ignores_spelled_out_strides_and_precision():
    plain = made.matmul(4, 8, 2)
    a, b = plain.tensors
    spelled = replace(plain, tensors=(replace(a, strides=(8, 1)), b), precision="high")
    assert identity(spelled) == identity(plain)
    turned = replace(plain, tensors=(replace(a, strides=(1, 4)), b))
    assert identity(turned) != identity(plain)


def test_choices_are_marked():
    records = [made.record(made.matmul(), "numpy", 1e-3), made.record(made.matmul(), "torch", 2e-3)]
    rows, _ = build_rows(records, {made.matmul(): "torch"})
    assert [r.candidate for r in rows if r.chosen] == ["torch"]
