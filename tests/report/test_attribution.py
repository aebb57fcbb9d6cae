"""Steps sum to the measured time, are never negative, and the right one grows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portable import report
from portable.report.attribution import STEPS, attribute
from tests.report import made

TIMES = st.floats(1e-9, 10.0)
PARTS = st.none() | st.floats(0, 20.0)


def steps(*args, **kwargs):
    return {s.name: s.time for s in attribute(*args, **kwargs)}


@given(TIMES, PARTS, PARTS, PARTS, PARTS, PARTS, st.floats(0, 1e-3))
def test_sums_to_the_time_whatever_is_known(time, sol, roof, kernel, copies, launch, floor):
    details = {"kernel_time": kernel, "copy_time": copies, "launch_time": launch}
    found = attribute(time, sol, roof, {k: v for k, v in details.items() if v is not None}, floor)
    assert [s.name for s in found] == list(STEPS)
    assert sum(s.time for s in found) == pytest.approx(time, rel=1e-12)
    assert all(s.time >= 0 for s in found)


def test_by_hand():
    details = {"kernel_time": 6.0, "copy_time": 2.0, "launch_time": 1.0}
    assert steps(10.0, 1.0, 4.0, details) == {
        "speed of light": 1.0, "ceiling": 3.0, "kernel": 2.0, "copies": 2.0, "launch": 1.0,
        "unexplained": 1.0,
    }  # fmt: skip


def test_what_was_not_measured_is_said_and_computed():
    found = {s.name: s for s in attribute(10.0, 1.0, 4.0, {"copy_time": 2.0}, 0.5)}
    assert (found["launch"].time, found["launch"].how) == (0.5, "computed")
    assert (found["kernel"].time, found["kernel"].how) == (3.5, "remainder")
    assert found["copies"].how == "measured"
    bare = {s.name: s for s in attribute(10.0, None, None, {})}
    assert (bare["kernel"].time, bare["speed of light"].how) == (10.0, "unknown")
    assert bare["ceiling"].how == bare["copies"].how == bare["launch"].how == "unknown"


def test_a_value_that_is_no_time_is_not_taken_for_one():
    assert steps(10.0, 1.0, None, {"copy_time": True, "launch_time": -1.0, "kernel_time": "x"}) == (
        steps(10.0, 1.0, None, {})
    )


@pytest.mark.parametrize(
    ("slower", "step"),
    [
        ({"kernel_time": 9.0}, "kernel"), ({"copy_time": 5.0}, "copies"),
        ({"launch_time": 4.0}, "launch"),
    ],
)  # fmt: skip
def test_the_slowed_stage_grows_and_no_other(slower, step):
    details = {"kernel_time": 6.0, "copy_time": 2.0, "launch_time": 1.0}
    before = steps(9.0, 1.0, 4.0, details)
    name, value = next(iter(slower.items()))
    after = steps(9.0 + value - details[name], 1.0, 4.0, {**details, **slower})
    assert after[step] == pytest.approx(before[step] + value - details[name])
    assert {k: v for k, v in after.items() if k != step} == pytest.approx(
        {k: v for k, v in before.items() if k != step}
    )


def test_an_inflated_peak_moves_time_from_the_ceiling_step_only():
    """A datasheet ten times too good: T_SOL shrinks, the ceiling loss takes all of it."""
    before = steps(9.0, 1.0, 4.0, {"kernel_time": 6.0})
    after = steps(9.0, 0.1, 4.0, {"kernel_time": 6.0})
    assert after["ceiling"] == pytest.approx(before["ceiling"] + 0.9)
    assert after["kernel"] == pytest.approx(before["kernel"])


def test_every_row_of_a_report_sums():
    built = report.build(made.several())
    timed = [r for r in built.rows if r.time]
    assert len(timed) > 50
    for row in timed:
        assert sum(s.time for s in row.steps) == pytest.approx(row.time, rel=1e-9)
    for ranking in built.rankings:
        for total in ranking.totals:
            assert sum(total.steps.values()) == pytest.approx(total.time, rel=1e-9)
