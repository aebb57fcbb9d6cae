"""The peers' own suites on every CPU backend: passed, or a known gap with a reason."""

from __future__ import annotations

import functools

import pytest

import portable
from tests.suites import gaps

onnx = pytest.importorskip("onnx")

from tests.suites import numpy_matmul, onnx_nodes  # noqa: E402


@pytest.mark.parametrize("backend", gaps.BACKENDS)
@pytest.mark.parametrize("operator", sorted(onnx_nodes.ADAPTERS))
def test_onnx_nodes(backend, operator):
    gaps.usable(backend)
    tests = {t.name: functools.partial(onnx_nodes.run, t) for t in onnx_nodes.cases()[operator]}
    assert tests, f"onnx has no test of {operator}"
    with portable.using(backend=backend):
        wrong = gaps.judge(tests, gaps.known("onnx", backend))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("backend", gaps.BACKENDS)
def test_numpys_own_matmul_tests(backend):
    gaps.usable(backend)
    tests = numpy_matmul.tests(backend)
    assert len(tests) > 10
    with portable.using(backend=backend):
        wrong = gaps.judge(tests, gaps.known("numpy", backend))
    assert not wrong, "\n".join(wrong)


def test_every_gap_names_a_test_that_exists():
    onnx_names = {t.name for tests in onnx_nodes.cases().values() for t in tests}
    for backend in gaps.BACKENDS:
        assert not set(gaps.known("onnx", backend)) - onnx_names
        assert not set(gaps.known("numpy", backend)) - set(numpy_matmul.tests(backend))


def test_a_closed_gap_is_an_error():
    (said,) = gaps.judge({"test_x": lambda: None}, {"test_x": "not yet"})
    assert "test_x passes now: delete its line" in said
    assert not gaps.judge({"test_x": lambda: 1 / 0}, {"test_x": "not yet"})
    assert gaps.judge({"test_x": lambda: 1 / 0}, {})
