"""The stability bench: what counts as noise, and how many flips it explains."""

from __future__ import annotations

from collections import Counter
from statistics import NormalDist

import pytest

from bench import stability


def tunes(values):
    return dict(enumerate(values))


def normal(middle, sigma, count=20):
    draw = NormalDist(middle, sigma)
    return [draw.inv_cdf((i + 0.5) / count) for i in range(count)]


def test_a_gap_as_large_as_the_noise_flips_every_third_time_by_chance():
    """Two candidates with independent noise; half of the range between quartiles is 0.67 sigma."""
    sigma = 0.05
    gap = sigma * NormalDist().inv_cdf(0.75)
    ratio = [1 + x for x in normal(gap, sigma * 2**0.5, 400)]
    found = stability.chance(tunes([1.0] * 400), tunes(ratio), 1.0)
    assert found == pytest.approx(0.32, abs=0.02)


def test_noise_common_to_both_explains_no_flip():
    mood = normal(1.0, 0.2)
    assert stability.chance(tunes(mood), tunes([1.1 * t for t in mood]), 1.0) < 1e-6


def test_flips_at_the_border_of_a_tie_are_by_chance():
    """A candidate 3 % ahead of the preferred one is on the border, whatever the noise."""
    ratio = [1 + x for x in normal(0.03, 0.005)]
    edge = stability.border("opencl[pocl]", "numpy")
    assert stability.chance(tunes([1.0] * 20), tunes(ratio), edge) == pytest.approx(0.5, abs=0.02)
    assert stability.border("numpy", "opencl[pocl]") < 1.0 < edge


def test_flips_are_counted_where_the_gap_exceeds_the_noise(capsys):
    counts = {"clear": Counter(numpy=15, torch=5), "even": Counter(numpy=20)}
    times = {
        "clear": {"numpy": tunes(normal(1.0, 0.01)), "torch": tunes(normal(1.5, 0.01))},
        "even": {"numpy": tunes(normal(1.0, 0.1)), "torch": tunes(normal(1.01, 0.1))},
    }
    stability.report(counts, times)
    told = capsys.readouterr().out
    assert "gap beyond the noise: 1 problems, flip rate 25.0% (by chance 0.0%)" in told
    assert "gap inside the noise: 1 problems, flip rate 0.0%" in told
