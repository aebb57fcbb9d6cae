from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portable import roofline as r
from portable.device import DeviceSpec
from portable.errors import DTypeError, RecordError
from portable.op import Cost, Work
from portable.roofline import Roofs, performance_portability, sol_score, speed_of_light

SPEC = DeviceSpec(
    "x1", "X1", "V", "gpu", "a1",
    peaks={"bfloat16/matrix": 1e15, "float32/vector": 1e13, "float32/special": 1e12},
    bandwidth=4e12, estimated=frozenset({"bandwidth", "peaks.float32/vector"}),
)  # fmt: skip


def cost(matrix=0.0, vector=0.0, read=0, written=0, special=0.0, dtype="bfloat16"):
    work = [Work("matrix", dtype, matrix), Work("vector", "float32", vector),
            Work("special", "float32", special)]  # fmt: skip
    return Cost(tuple(w for w in work if w.flops), read, written)


def test_compute_bound_by_the_matrix_unit():
    sol = speed_of_light(cost(matrix=2e12, vector=1e9, read=10**9, written=10**9), SPEC)
    assert sol.time == sol.compute_time == pytest.approx(2e-3)
    assert sol.memory_time == pytest.approx(0.5e-3)
    assert (sol.bound_by, sol.unit, sol.dtype) == ("compute", "matrix", "bfloat16")
    assert sol.way == "bfloat16/matrix"
    assert not sol.estimated, "the bandwidth is, but it does not bind"
    assert sol.intensity == pytest.approx(2.001e12 / 2e9)


def test_memory_bound_and_the_ridge_point():
    sol = speed_of_light(cost(matrix=1e9, read=4 * 10**9), SPEC)
    assert sol.time == pytest.approx(1e-3)
    assert sol.bound_by == "memory"
    assert sol.ridge == pytest.approx(1e15 / 4e12)
    assert sol.intensity < sol.ridge
    assert sol.estimated


def test_units_overlap_and_equal_units_add_up():
    both = Cost((Work("vector", "float32", 1e10), Work("vector", "float32", 1e10)), 0, 0)
    assert speed_of_light(both, SPEC).time == pytest.approx(2e-3)
    sol = speed_of_light(cost(matrix=1e12, vector=5e9), SPEC)
    assert sol.time == pytest.approx(1e-3), "max, not sum"
    vector = speed_of_light(cost(vector=1e11, matrix=1e12), SPEC)
    assert (vector.unit, vector.bound_by, vector.estimated) == ("vector", "compute", True)


def test_no_work_no_bytes_and_no_bandwidth():
    nothing = speed_of_light(Cost((), 0, 0), SPEC)
    assert (nothing.time, nothing.bound_by, nothing.unit) == (0.0, "nothing", "")
    assert nothing.ridge == math.inf
    copy = speed_of_light(Cost((), 4 * 10**12, 0), SPEC)
    assert (copy.time, copy.bound_by, copy.intensity) == (1.0, "memory", 0.0)
    blind = DeviceSpec("", "", "", "", "", {"float32/vector": 1e12}, 0.0)
    assert speed_of_light(Cost((), 100, 0), blind).time == 0.0


def test_a_dtype_without_a_peak_is_an_error_that_names_the_known_ones():
    with pytest.raises(DTypeError, match="float64.*bfloat16/matrix"):
        speed_of_light(cost(matrix=1.0, dtype="float64"), SPEC)


@given(st.floats(0, 1e15), st.floats(0, 1e15), st.integers(0, 10**12), st.floats(1.0, 10.0))
def test_more_work_or_bytes_never_take_less_time(matrix, vector, read, factor):
    small = speed_of_light(cost(matrix, vector, read), SPEC)
    large = speed_of_light(cost(matrix * factor, vector * factor, int(read * factor) + 1), SPEC)
    assert large.time >= small.time
    assert small.time == max(small.compute_time, small.memory_time)
    if small.compute_time and small.memory_time:
        assert (small.bound_by == "compute") == (small.intensity > small.ridge) or math.isclose(
            small.compute_time, small.memory_time, rel_tol=1e-9
        )


ROOFS = Roofs(
    {"float32/vector": 5e12, "bfloat16/matrix": 8e14}, {"dram": 3e12, "l2": 9e12}, 2e-6,
    {"dram": 0.01}, {"dram": "triad"}, "x1", "2026-01-01T00:00:00+00:00", {"torch": "2.6"},
)  # fmt: skip


def test_measured_roofs_with_launch_floor_and_cache_levels():
    big = cost(matrix=8e11, read=3 * 10**9)
    assert r.roof_time(big, ROOFS) == pytest.approx(1e-3)
    assert r.roof(big, ROOFS).bound_by in ("compute", "memory")
    tiny = r.roof(cost(vector=10.0, read=40), ROOFS)
    assert (tiny.time, tiny.bound_by) == (2e-6, "launch")
    assert r.roof_time(cost(read=9 * 10**9), ROOFS, "l2") == pytest.approx(1e-3)
    with pytest.raises(RecordError, match=r"'l7'.*\['dram', 'l2'\]"):
        r.roof_time(tiny_cost(), ROOFS, "l7")


def tiny_cost():
    return cost(vector=1.0)


def test_work_whose_rate_was_not_measured_adds_no_bound():
    exotic = Cost((Work("matrix", "float64", 1e18),), 3 * 10**9, 0)
    assert r.roof_time(exotic, ROOFS) == pytest.approx(1e-3)
    half = Cost((Work("vector", "float16", 5e9),), 0, 0)
    assert r.roof_time(half, ROOFS) == pytest.approx(1e-3), "widened to the float32 rate"


def test_roofs_round_trip_and_refuse_nonsense():
    assert Roofs.from_json(ROOFS.to_json()) == ROOFS
    assert ROOFS.dram == 3e12
    for wrong, message in [
        ({"bandwidth": {}}, "'dram' is needed"),
        ({"bandwidth": {"dram": 0.0}}, "dram is 0.0"),
        ({"compute": {"float32/vector": -1.0}}, "float32/vector is -1.0"),
        ({"latency": -1.0}, "latency is -1.0"),
        ({"latency": "x"}, "latency is 'x'"),
        ({"extra": 1}, "unknown fields"),
    ]:
        with pytest.raises(RecordError, match=message):
            Roofs.from_json({**ROOFS.to_json(), **wrong})


def test_transfers_travel_with_the_roofs():
    ways = {"to_device": r.Transfer(25e9, 1e-5), "to_host": r.Transfer(20e9, 2e-5)}
    roofs = dataclasses.replace(ROOFS, transfers=ways)
    assert Roofs.from_json(json.loads(json.dumps(roofs.to_json()))) == roofs
    back = Roofs.from_flat(roofs.flat())
    assert (back.transfers, back.bandwidth) == (ways, ROOFS.bandwidth)
    assert "to device 25 GB/s after 10 µs" in str(roofs)
    assert ways["to_host"].time(10**9) == pytest.approx(0.05002)


def test_roofs_of_before_transfers_are_read():
    old = ROOFS.to_json()
    del old["transfers"]
    assert Roofs.from_json(old) == ROOFS
    assert Roofs.from_flat({"dram": 1e9, "launch": 1e-6}).transfers == {}
    for wrong, message in [
        ({"sideways": {"bandwidth": 1.0}}, "sideways"),
        ({"to_host": {"bandwidth": 0.0}}, "transfer is 0.0"),
        ({"to_host": {}}, "transfer is 0.0"),
        ({"to_host": {"bandwidth": 1.0, "latency": -1.0}}, "latency is -1.0"),
        ({"to_host": {"bandwidth": 1.0, "speed": 1.0}}, "unknown fields 'speed'"),
        ({"to_host": 3.0}, "to_host is 3.0"),
    ]:
        with pytest.raises(RecordError, match=message):
            Roofs.from_json({**old, "transfers": wrong})


# --- scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "baseline", "sol", "status"),
    [
        (0.8, 2.0, 1.0, "bound_violated"),  # the published function says 1.25
        (0.5, 2.0, 1.0, "bound_violated"),  # ... 2.0
        (0.0, 2.0, 1.0, "invalid"),  # ... divides by zero
        (math.nan, 2.0, 1.0, "invalid"),  # ... NaN
        (1.001, 1.0, 1.0, "bound_violated"),  # ... 0.0 for being 0.1 % slower than the bound
        (1.0, 1.0, 1.0, "bound_violated"),
        (1.5, 0.9, 1.0, "bound_violated"),
        (math.inf, 2.0, 1.0, "invalid"),
        (1.0, math.nan, 1.0, "invalid"),
        (2.0, 3.0, math.nan, "invalid"),
        (-1.0, 2.0, 1.0, "invalid"),
    ],
)
def test_inputs_on_which_the_published_score_leaves_its_range(time, baseline, sol, status):
    score = sol_score(time, baseline, sol)
    assert (score.value, score.status) == (None, status)
    assert score.reason


def test_the_score_is_one_at_the_bound_and_a_half_at_the_baseline():
    assert sol_score(1.0, 2.0, 1.0).value == 1.0
    assert sol_score(2.0, 2.0, 1.0).value == 0.5
    assert sol_score(3.0, 2.0, 1.0).value == pytest.approx(1 / 3)
    wrong = sol_score(1.5, 2.0, 1.0, correct=False)
    assert (wrong.value, wrong.status) == (0.0, "incorrect")


positive = st.floats(1e-12, 1e6)


@given(positive, positive, st.floats(0, 1e6))
def test_a_score_is_in_its_range_or_absent(time, baseline, sol):
    score = sol_score(time, baseline, sol)
    assert (score.value is None) == (score.status != "ok")
    assert score.value is None or 0 <= score.value <= 1
    part = r.fraction(sol, time)
    assert part.value is None or 0 <= part.value <= 1


def test_fraction_headroom_and_mfu():
    assert r.fraction(1.0, 4.0).value == 0.25
    assert r.fraction(1.0, 0.9).status == "bound_violated"
    assert r.fraction(math.nan, 1.0).status == "invalid"
    assert r.headroom_reclaimed(1.5, 2.0, 1.0).value == 0.5
    assert r.headroom_reclaimed(3.0, 2.0, 1.0).value == -1.0
    assert r.headroom_reclaimed(0.5, 2.0, 1.0).status == "bound_violated"
    assert r.mfu(1e12, 2.0, 1e12).value == 0.5
    assert r.mfu(3e12, 2.0, 1e12).status == "bound_violated"
    assert r.mfu(1e12, 2.0, 0.0).status == "invalid"
    assert r.mfu(math.nan, 2.0, 1e12).status == "invalid"
    assert r.mfu(1e12, 0.0, 1e12).status == "invalid"


# --- portability ---------------------------------------------------------------------------------


def test_performance_portability_by_hand():
    found = performance_portability({"a": 0.5, "b": 0.25, "c": 1.0, "other": 0.1}, ["a", "b", "c"])
    assert found.value == pytest.approx(3 / (1 / 0.5 + 1 / 0.25 + 1 / 1.0))
    assert (found.coverage, found.missing, found.reason) == (1.0, (), "")


@pytest.mark.parametrize("gap", [None, 0.0, math.nan, math.inf])
def test_a_missing_platform_makes_it_zero_and_says_which(gap):
    found = performance_portability({"a": 0.5, "b": gap}, ["a", "b", "c"])
    assert found.value == (None if gap == math.inf else 0.0)
    assert found.coverage == pytest.approx(1 / 3)
    if gap != math.inf:
        assert found.subset == 0.5
        assert found.reason == "no correct result on b, c"


def test_bad_efficiencies_and_platforms():
    over = performance_portability({"a": 1.2, "b": 0.5}, ["a", "b"])
    assert over.value is None
    assert "outside of [0, 1] on a" in over.reason
    assert performance_portability({}, []).value is None
    assert performance_portability({}, ["a"]).value == 0.0
    with pytest.raises(ValueError, match="twice"):
        performance_portability({}, ["a", "a"])


def test_the_three_inputs_that_break_the_p3_library():
    # 1. two problems of one application on one platform: a PP for each, nothing raised
    rows = [("app", "p1", "x", 0.5), ("app", "p1", "y", 1.0),
            ("app", "p2", "x", 0.25), ("app", "p2", "y", 0.25)]  # fmt: skip
    table = r.portability_table(rows, ["x", "y"])
    assert table["app", "p1"].value == pytest.approx(2 / (2 + 1))
    assert table["app", "p2"].value == pytest.approx(0.25)
    # 2. a NaN efficiency: did not run, so zero
    assert r.portability_table([("app", "p", "x", math.nan)], ["x"])["app", "p"].value == 0.0
    # 3. a figure of merit of 0.0 means an invalid run: it is not the best time
    found = r.application_efficiencies({"a": 0.0, "b": 2.0, "c": 4.0, "d": None, "e": math.nan})
    assert found == {"a": None, "b": 1.0, "c": 0.5, "d": None, "e": None}
    assert r.application_efficiencies({"a": 0.0}) == {"a": None}


def test_of_several_rows_for_a_cell_the_best_counts():
    rows = [("app", "p", "x", 0.2), ("app", "p", "x", None), ("app", "p", "x", 0.4)]
    assert r.portability_table(rows, ["x"])["app", "p"].value == pytest.approx(0.4)


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8))
def test_pp_lies_between_the_worst_and_the_mean(efficiencies):
    names = [str(i) for i in range(len(efficiencies))]
    value = performance_portability(dict(zip(names, efficiencies, strict=True)), names).value
    assert min(efficiencies) - 1e-12 <= value <= sum(efficiencies) / len(efficiencies) + 1e-12


def test_cascade_falls_from_the_best_platform_on():
    found = r.cascade({"a": 0.5, "b": 1.0, "c": None}, ["a", "b", "c"])
    assert [(p, e) for p, e, _ in found] == [("b", 1.0), ("a", 0.5)]
    assert [round(pp, 4) for _, _, pp in found] == [1.0, round(2 / 3, 4)]


def test_code_divergence():
    assert r.code_divergence({"a": [1, 2], "b": [2, 1]}) == 0.0
    assert r.code_divergence({"a": [1], "b": [2]}) == 1.0
    assert r.code_divergence({"a": [1, 2], "b": [2, 3], "c": [1, 2]}) == pytest.approx(4 / 9)
    assert r.code_divergence({"a": [1]}) == r.code_divergence({}) == 0.0
    assert r.code_divergence({"a": [], "b": []}) == 0.0


def test_regret():
    assert r.regret(1.2, 1.0) == pytest.approx(0.2)
    assert r.regret(0.9, 1.0) == 0.0
