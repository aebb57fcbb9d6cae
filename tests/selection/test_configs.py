"""The search for a config: what it proposes, what it learns, and that it wanders when stuck."""

from __future__ import annotations

import itertools
import math

import pytest

from portable.configs import PATIENCE, Search, transferred

SPACE = [
    {"x": x, "y": y, "kind": kind, "flag": flag}
    for x, y, kind, flag in itertools.product(
        (16, 32, 64, 128, 256), (1, 2, 4, 8), ("row", "block", "wave"), (False, True)
    )
]


def cost(config):
    """Best at x = 128, y = 2, wave, flag."""
    time = 1.0 + 0.3 * abs(math.log2(config["x"] / 128)) + 0.2 * abs(math.log2(config["y"] / 2))
    time *= {"row": 1.6, "block": 1.3, "wave": 1.0}[config["kind"]]
    return time * (1.0 if config["flag"] else 1.5)


def best_after(search, count):
    for _ in range(count):
        (index,) = search.propose()
        search.add(index, cost(search.configs[index]))
    return min(search.measured.values())


def test_it_starts_with_what_is_expected_to_be_best():
    expected = [cost(c) for c in SPACE]
    search = Search(SPACE, expected)
    assert search.propose() == [expected.index(1.0)]


@pytest.mark.parametrize("expected", ["nothing", "wrong"])
def test_it_finds_the_best_of_120_in_20_whatever_was_expected(expected):
    times = [1.0] * len(SPACE) if expected == "nothing" else [2.4 / cost(c) for c in SPACE]
    assert best_after(Search(SPACE, times), 20) <= 1.2


def test_what_fails_and_its_likes_are_avoided():
    search = Search(SPACE, [1.0] * len(SPACE))
    for _ in range(15):
        (index,) = search.propose()
        fails = SPACE[index]["kind"] == "row"
        search.add(index, math.inf if fails else cost(SPACE[index]))
    kinds = [SPACE[i]["kind"] for i in list(search.measured)[5:]]
    assert kinds.count("row") <= 2


def test_several_proposals_differ_and_are_no_measurements():
    search = Search(SPACE, [cost(c) for c in SPACE])
    search.add(0, 2.0)
    four = search.propose(4)
    assert len(set(four)) == 4
    assert 0 not in four
    assert search.measured == {0: 2.0}
    assert search.propose(4) == four


def test_an_end_is_known():
    search = Search(SPACE[:3], [1.0, 1.0, 1.0])
    assert sorted(search.propose(9)) == [0, 1, 2]
    for index in range(3):
        search.add(index, 1.0 + index)
    assert search.propose() == []
    assert search.gain() == 0.0


def test_stuck_it_draws_at_random_and_repeats_with_a_seed():
    def tried(seed):
        search = Search(SPACE, [cost(c) for c in SPACE], seed=seed)
        for _ in range(PATIENCE + 8):  # the first is the best: nothing improves on it
            (index,) = search.propose()
            search.add(index, cost(SPACE[index]))
        return list(search.measured)

    assert tried(1) == tried(1)
    assert tried(1)[: PATIENCE + 1] == tried(2)[: PATIENCE + 1]
    assert tried(1) != tried(2)


def test_configs_that_do_not_differ_and_wrong_lengths():
    assert Search([{}], [1.0]).propose() == [0]
    with pytest.raises(ValueError, match="2 configs and 1 expected"):
        Search(SPACE[:2], [1.0])


def test_nearer_devices_count_more_in_what_is_transferred():
    near, far = [1.0, 2.0, math.inf], [3.0, 1.0, 1.0]
    times = transferred([near, far], [9.0, 1.0])
    assert times[0] < times[1] < times[2]
    assert transferred([near, far], [1.0, 9.0])[1] < times[1]
