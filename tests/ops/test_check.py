"""The comparison itself: what it lets pass and what it names."""

from __future__ import annotations

import numpy as np
import pytest

from portable import cases, check, dtypes
from portable.op import Bound, TensorSpec
from tests.ops import right
from tests.ops.common import case, op, posed

NAN, INF = np.nan, np.inf


def compare(y, ref, bound=None, dtype=None):
    y, ref = np.asarray(y), np.asarray(ref, np.float64)
    spec = TensorSpec(ref.shape, dtype or y.dtype.name)
    return check.compare(spec, y, ref, bound or Bound(absolute=1e-3, relative_rms=1e-3))


def f32(*values):
    return np.array(values, np.float32)


def test_equal_passes():
    assert compare(f32(1, 2, NAN, INF, -INF), [1, 2, NAN, INF, -INF]) == []
    assert compare(np.zeros((0, 3), np.float32), np.zeros((0, 3))) == []


def test_dtype_and_shape():
    assert compare(np.zeros(2), [0, 0], dtype="float32") == ["dtype is float64, must be float32"]
    spec = TensorSpec((3,), "float32")
    (line,) = check.compare(spec, f32(1, 2), np.zeros(3), Bound())
    assert line == "shape is (2,), must be (3,)"
    assert "dtype is object" in compare(np.array([None, 1]), [0, 0], dtype="float32")[0]


@pytest.mark.parametrize(
    ("y", "ref", "what"),
    [
        ((1, NAN), (1, 2), "NaN"), ((1, 2), (1, NAN), "NaN"), ((1, INF), (1, 2), "infinity"),
        ((1, 2), (1, INF), "infinity"), ((1, -INF), (1, INF), "infinity"),
        ((1, NAN), (1, INF), "NaN"), ((1, INF), (1, NAN), "NaN"),
    ],
)  # fmt: skip
def test_patterns_must_agree(y, ref, what):
    (line,) = compare(f32(*y), ref)
    assert line.startswith(f"{what} pattern differs at 1 of 2 elements: [1]:")


def test_worst_element_is_named_first():
    (line, rms) = compare(f32(1, 2.01, 3.1, 4), [1, 2, 3, 4])
    assert "at 2 of 4 elements: [2]: 3.1 for 3.0 (100 of the bound); [1]: 2.01" in line
    assert rms.startswith("relative RMS error 0.01")


def test_relative_rms_alone():
    y = f32(*np.linspace(1, 2, 100)) + np.float32(5e-4)
    ref = np.linspace(1, 2, 100)
    assert compare(y, ref, Bound(absolute=1e-3, relative_rms=1e-3)) == []
    (line,) = compare(y, ref, Bound(absolute=1e-3, relative_rms=1e-4))
    assert "above 0.0001" in line


def test_overflow_of_the_dtype():
    """Above the range the result is infinite; near its end both are right."""
    bound = Bound(absolute=np.array([50.0, 50.0, 50.0]))
    ref = [70000.0, 65510.0, -70000.0]
    inf = np.array([INF, INF, -INF], np.float16)
    assert compare(inf, ref, bound) == []
    finite = np.array([INF, 65504, -INF], np.float16)
    assert compare(finite, ref, bound) == []
    saturated = np.array([65504, 65504, -65504], np.float16)
    assert "infinity pattern differs at 2 of 3" in compare(saturated, ref, bound)[0]
    assert "infinity pattern" in compare(np.array([INF], np.float16), [60000.0])[0]


def test_exact():
    exact = Bound(exact=True)
    assert compare(f32(1, -0.0, NAN), [1, 0.0, NAN], exact) == []
    (line,) = compare(f32(1, 2.0000002), [1, 2], exact)
    assert line.startswith("not exactly equal at 1 of 2 elements: [1]:")
    integers = TensorSpec((2,), "int32")
    y = np.array([1, 3], np.int32)
    assert check.compare(integers, y, y.copy(), exact) == []
    assert "not exactly" in check.compare(integers, y, np.array([1, 2]), exact)[0]


def test_bfloat16_and_float8_are_compared():
    for dtype in ("bfloat16", "float8_e4m3fn"):
        y = np.array([1, 2], dtypes.numpy_dtype(dtype))
        assert compare(y, [1, 2], Bound(exact=True), dtype) == []
        assert compare(y, [1, 4], Bound(exact=True), dtype)


def test_number_of_results():
    problem, arrays = posed("add_rms_norm", case("add_rms_norm", "4x64"), "float32")
    y, s = right.run(problem, arrays)
    assert check.check(op("add_rms_norm"), problem, arrays, (y, s)) == []
    assert check.check(op("add_rms_norm"), problem, arrays, y) == ["1 results; add_rms_norm has 2"]
    (line, *_) = check.check(op("add_rms_norm"), problem, arrays, (y, y))
    assert line.startswith("result 1: ")


def test_a_share_of_wrong_elements_is_never_accepted():
    problem, arrays = posed("matmul", case("matmul", "256x128x256"), "float32")
    y = right.run(problem, arrays)
    y[17, 31] += 1e-2
    (line, *_) = check.check(op("matmul"), problem, arrays, y)
    assert "at 1 of 65536 elements: [17, 31]" in line


def test_accuracy_in_ulps():
    problem, arrays = posed("softmax", case("softmax", "4x64"), "float32")
    y = right.run(problem, arrays)
    (found,) = check.accuracy(op("softmax"), problem, arrays, y)
    assert 0 < found.ulps < 8
    assert 0 < found.relative_rms < found.allowed_rms
    assert 0 < found.of_bound < 1
    assert "ulp" in str(found)
    exactly = np.nextafter(f32(1.0), f32(2.0))
    measured = check.measure("float32", exactly, np.array([1.0]), Bound(absolute=1.0))
    assert measured.ulps == 1


def test_integer_accuracy():
    problem, arrays = posed("sum", case("sum", "int8 1"), "int8")
    y = right.run(problem, arrays)
    assert check.accuracy(op("sum"), problem, arrays, y)[0].of_bound == 0
    assert check.accuracy(op("sum"), problem, arrays, y + 1)[0].of_bound == INF


def test_noncontiguous_results_are_fine():
    problem, arrays = posed("matmul", case("matmul", "64x64x64"), "float32")
    y = np.asfortranarray(right.run(problem, arrays))
    assert check.check(op("matmul"), problem, arrays, y) == []
    assert cases.spec_of(y).layout == "transposed"
