"""NumPy's implementations: every op, every case."""

from __future__ import annotations

import numpy as np
import pytest

import portable
from portable import registry
from tests.backends.array_backends import failures


@pytest.mark.parametrize("op", registry.op_names())
def test_every_case_is_within_bounds(op):
    count, wrong = failures("numpy", op)
    assert count > 20
    assert not wrong, "\n".join(wrong[:5])


def test_it_takes_everything():
    backend = registry.backend("numpy")
    assert set(backend.ops()) == set(registry.op_names())


def test_nan_and_infinity_raise_no_warning():
    # pytest turns warnings into errors
    x = np.full((33, 33), np.inf, np.float32)
    with portable.using(backend="numpy"):
        assert np.isnan(portable.matmul(x, np.zeros_like(x))).all()
        assert np.isinf(portable.matmul(x.astype(np.float16), np.ones((33, 2), np.float16))).all()
        assert np.isnan(portable.softmax(x)).all()
        assert np.isinf(portable.sum(x))


def test_many_threads_are_as_quiet_and_right():
    from concurrent.futures import ThreadPoolExecutor

    x = np.full((64, 64), np.inf, np.float32)
    x[::2] = 1
    with portable.using(backend="numpy"):
        expected = portable.matmul(x, x)
    kernel = (
        registry.backend("numpy")
        .implementation("matmul")
        .compile(_problem(x), registry.backend("numpy").devices()[0], {})
    )
    with ThreadPoolExecutor(4) as pool:
        for y in pool.map(lambda _: kernel(x, x), range(64)):
            np.testing.assert_array_equal(y, expected)


def _problem(x):
    from portable import cases

    return cases.problem_of(registry.op("matmul"), {"a": x, "b": x})


def test_masked_keys_hide_garbage_in_the_values():
    q, k = np.ones((1, 1, 2, 4), "f4"), np.ones((1, 1, 5, 4), "f4")
    v = np.ones((1, 1, 5, 3), "f4")
    v[:, :, 3:] = np.nan
    mask = np.array([True, True, True, False, False])
    with portable.using(backend="numpy"):
        np.testing.assert_allclose(portable.attention(q, k, v, mask=mask[None]), 1.0)


def test_bad_indices_raise():
    table = np.ones((4, 2), np.float32)
    with portable.using(backend="numpy"):
        for bad in (4, -1):
            with pytest.raises(IndexError):
                portable.embedding(table, np.array([0, bad]))
            with pytest.raises(IndexError):
                portable.cross_entropy(table, np.array([0, 1, 1, bad]))
