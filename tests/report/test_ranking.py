"""Workload sums, fixes and performance portability by hand."""

from dataclasses import replace

import pytest

from portable import report, roofline
from portable.report.ranking import rank
from portable.report.rows import build_rows
from portable.report.weights import from_entries, from_mapping
from tests.report import made

A, B = made.matmul(64, 512, 512), made.problem("softmax", x=(96, 512))


def two(**more):
    return [
        made.record(A, "numpy", 2e-3, **more), made.record(A, "torch", 1e-3, **more),
        made.record(B, "numpy", 1e-3, **more), made.record(B, "torch", 4e-3, **more),
    ]  # fmt: skip


def totals(ranking):
    return {t.candidate: t for t in ranking.totals}


def test_weighted_totals_by_hand():
    weights = from_mapping("w", {A: (10, "mlp"), B: (1, "probs")})
    rows, (place,) = build_rows(two(), {A: "numpy", B: "numpy"})
    found = rank(rows, place, weights)
    by_name = totals(found)
    assert by_name["best"].time == pytest.approx(11e-3)
    assert by_name["numpy"].time == pytest.approx(21e-3)
    assert by_name["torch"].time == pytest.approx(14e-3)
    assert by_name["chosen"].slowdown == pytest.approx(21 / 11)
    assert [t.candidate for t in found.totals] == ["chosen", "best", "torch", "numpy"]


def test_what_a_candidate_does_not_run_falls_back_to_the_best():
    records = [r for r in two() if (r.backend, r.problem) != ("torch", B)]
    rows, (place,) = build_rows(records)
    torch = totals(rank(rows, place, from_mapping("w", {A: (10, ""), B: (1, "")})))["torch"]
    assert (torch.problems, torch.missing) == (1, 1)
    assert torch.time == pytest.approx(10e-3)
    assert torch.with_fallback == pytest.approx(11e-3)


def test_fixes_name_the_gain():
    rows, (place,) = build_rows(two(), {A: "numpy", B: "numpy"})
    fixes = rank(rows, place, from_mapping("w", {A: (10, ""), B: (1, "")})).fixes
    choice = [f for f in fixes if f.kind == "choice"]
    assert [(f.where, f.gain) for f in choice] == [("matmul", pytest.approx(10e-3))]
    port = {f.where: f.gain for f in fixes if f.kind == "port"}
    assert port == {
        "matmul on numpy": pytest.approx(10e-3),
        "softmax on torch": pytest.approx(3e-3),
    }
    assert fixes == sorted(fixes, key=lambda f: -f.gain)


def test_copies_and_launch_are_named_as_fixes():
    records = [made.record(A, "jax", 1e-3, details={"copy_time": 6e-4, "launch_time": 2e-4})]
    rows, (place,) = build_rows(records)
    gains = {f.kind: f.gain for f in rank(rows, place, from_mapping("w", {A: (5, "")})).fixes}
    assert gains["copies"] == pytest.approx(3e-3)
    assert gains["launch"] == pytest.approx(1e-3)


def test_equal_problems_of_a_workload_add_up():
    spelled = replace(A, precision="high")
    weights = from_entries("w", [(A, 2, "q"), (spelled, 3, "k")])
    assert list(weights.calls.values()) == [5]
    assert list(weights.notes.values()) == ["q, k"]
    with pytest.raises(ValueError, match="> 0 is needed"):
        from_entries("w", [(A, 0, "")])


def test_a_workload_without_a_record_has_no_ranking():
    rows, (place,) = build_rows(two())
    assert rank(rows, place, from_mapping("w", {made.matmul(1, 2, 3): (1, "")})) is None


# --- performance portability -------------------------------------------------------------------


def study(records, weights=None, platforms=None):
    built = report.build(records, workloads=weights or (), platforms=platforms)
    return built.studies[0]


def result(found, application, scope=""):
    return next(r for r in found.results if (r.application, r.scope) == (application, scope))


def test_pp_by_hand():
    """torch: e = 1 on the CPU and 1/4 on the GPU: PP = 2 / (1 + 4) = 0.4."""
    records = [
        made.record(A, "torch", 1e-3), made.record(A, "jax", 2e-3),
        made.record(A, "torch", 4e-5, made.H100, machine="gg"),
        made.record(A, "jax", 1e-5, made.H100, machine="gg"),
    ]  # fmt: skip
    found = study(records)
    assert result(found, "torch").app.value == pytest.approx(0.4)
    assert result(found, "jax").app.value == pytest.approx(2 / (2 + 1))
    assert result(found, "portable").app.value == pytest.approx(1.0)
    rows, places = build_rows(records)
    sols = [next(r.sol.time for r in rows if r.place is p) for p in places]
    by_hand = 2 / (1e-3 / sols[0] + 4e-5 / sols[1])
    assert result(found, "torch").arch.value == pytest.approx(by_hand)
    assert [round(e, 9) for _, e, _ in result(found, "torch").cascade] == [1.0, 0.25]


def test_pp_over_a_workload_weighs_times_not_ratios():
    weights = from_mapping("w", {A: (10, ""), B: (1, "")})
    found = study(two(), [weights])
    assert result(found, "numpy").app.value == pytest.approx(11 / 21)
    assert result(found, "numpy", "softmax").app.value == pytest.approx(1.0)


def test_an_unsupported_platform_makes_pp_zero_and_says_why():
    records = [
        *two(), made.record(A, "torch", 1e-5, made.H100, machine="gg"),
        made.record(B, "torch", status="exception", reason="no kernel", device=made.H100,
                    machine="gg"),
        made.record(B, "jax", 1e-5, made.H100, machine="gg"),
    ]  # fmt: skip
    torch = result(study(records), "torch")
    assert torch.app.value == 0
    assert torch.app.coverage == 0.5
    assert torch.app.subset == pytest.approx(2 / 5)
    assert "no correct result for 1 of 2 problems (softmax float32)" in str(torch.why)


def test_a_declared_platform_without_records_is_unsupported():
    found = study(two(), platforms=["cpu-amd-zen5", "H200 SXM"])
    assert found.platforms[1] == "H200 SXM"
    assert result(found, "torch").app.value == 0
    assert "H200 SXM" in result(found, "torch").app.reason


# The three ordinary inputs that break P3's functions.


def test_several_problems_on_one_platform_have_a_pp_each():
    rows = [("app", "small", "cpu", 0.5), ("app", "large", "cpu", 0.25)]
    found = roofline.portability_table(rows, ["cpu"])
    assert found["app", "small"].value == 0.5
    assert found["app", "large"].value == 0.25
    # The same from records: one efficiency per problem, none refused.
    per_op = study(two())
    assert result(per_op, "torch", "matmul").app.value == 1
    assert result(per_op, "torch", "softmax").app.value == pytest.approx(0.25)


def test_an_efficiency_that_is_nan_is_a_platform_that_did_not_run():
    found = roofline.performance_portability({"a": 0.5, "b": float("nan")}, ["a", "b"])
    assert (found.value, found.missing) == (0.0, ("b",))


def test_a_time_of_zero_is_a_run_that_failed_and_no_best_time():
    efficiencies = roofline.application_efficiencies({"x": 0.0, "y": 2.0, "z": 4.0})
    assert efficiencies == {"x": None, "y": 1.0, "z": 0.5}
    zero = made.record(A, "numpy", 1e-3, samples=(0.0, 0.0, 0.0))
    rows, _ = build_rows([zero, made.record(A, "torch", 2e-3)])
    assert [r.candidate for r in rows if r.gap_best == 1] == ["torch"]


@pytest.mark.parametrize(
    ("unit", "per"),
    [
        ("calls per image (batch mix assumed)", "per image (batch mix assumed)"),
        ("recorded calls per training step", "per training step"),
        ("1 per listed problem", "per listed problem"),
        ("calls in the captured run", "in the captured run"),
        ("request", "per request"),
        ("", "per unit of the workload"),
    ],
)
def test_what_a_time_is_for(unit, per):
    assert from_mapping("w", {}, unit=unit).per == per
