from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portable.stats import geometric_mean, harmonic_mean, median, quantile, relative_spread

values = st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=30)


@given(values)
def test_as_the_standard_library_has_them(v):
    assert median(v) == pytest.approx(statistics.median(v))
    lower, _, upper = statistics.quantiles(v, n=4, method="inclusive")
    assert quantile(v, 0.25) == pytest.approx(lower)
    assert quantile(v, 0.75) == pytest.approx(upper)
    assert geometric_mean(v) == pytest.approx(statistics.geometric_mean(v))
    assert harmonic_mean(v) == pytest.approx(statistics.harmonic_mean(v))
    weights = [i + 1.0 for i in range(len(v))]
    assert harmonic_mean(v, weights) == pytest.approx(statistics.harmonic_mean(v, weights))


def test_edges():
    assert median([3]) == 3
    assert relative_spread([1.0]) == 0.0
    assert relative_spread([0.0, 0.0]) == 0.0
    assert relative_spread([1, 2, 3, 4, 5]) == pytest.approx(1 / 3)
    assert harmonic_mean([1.0, 0.0]) == 0.0
    assert geometric_mean([1, 4, 999], [1, 1, 0]) == pytest.approx(2)
    for call in (
        lambda: quantile([], 0.5),
        lambda: geometric_mean([]),
        lambda: geometric_mean([1.0, 0.0]),
        lambda: harmonic_mean([-1.0]),
        lambda: harmonic_mean([1.0], [0.0]),
        lambda: harmonic_mean([1.0, 2.0], [1.0, -1.0]),
        lambda: geometric_mean([1.0], [1.0, 2.0]),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - several messages
            call()
    assert math.isfinite(geometric_mean([1e300, 1e300]))
