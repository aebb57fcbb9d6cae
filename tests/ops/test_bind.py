"""Shape and dtype rules of every op against NumPy's, on generated shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from portable import cases
from portable.errors import ArgumentError
from portable.op import TensorSpec
from tests.ops.common import NAMES, op, posed

small = st.integers(0, 4)
shapes = st.lists(small, min_size=0, max_size=4).map(tuple)
common = settings(max_examples=150, deadline=None)


def zeros(shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def bound(name, arrays, **params):
    return cases.problem_of(op(name), arrays, params)


@common
@given(shapes, shapes)
def test_matmul_as_numpy(a, b):
    try:
        expected = np.matmul(zeros(a), zeros(b)).shape
    except ValueError:
        with pytest.raises(ArgumentError):
            bound("matmul", [zeros(a), zeros(b)])
        return
    assert bound("matmul", [zeros(a), zeros(b)]).results[0].shape == expected


@common
@given(shapes, st.one_of(st.none(), st.integers(-5, 4), st.lists(st.integers(-5, 4), max_size=3)),
       st.booleans(), st.sampled_from(["sum", "mean", "max"]))  # fmt: skip
def test_reductions_as_numpy(shape, axis, keepdims, name):
    axis = tuple(axis) if isinstance(axis, list) else axis
    assume(shape or axis in (None, ()))  # NumPy lets axis 0 pass for 0-d
    function = getattr(np, name)
    try:
        with np.errstate(all="ignore"):
            if name == "mean" and math.prod(shape) == 0:
                function = np.sum  # NumPy warns; the shape is the same
            expected = function(zeros(shape), axis=axis, keepdims=keepdims).shape
    except (ValueError, np.exceptions.AxisError):
        with pytest.raises(ArgumentError):
            bound(name, [zeros(shape)], axis=axis, keepdims=keepdims)
        return
    problem = bound(name, [zeros(shape)], axis=axis, keepdims=keepdims)
    assert problem.results[0].shape == expected
    assert all(0 <= a < len(shape) for a in problem.param("axis"))


@common
@given(shapes, st.one_of(st.none(), st.integers(-5, 4)), st.booleans())
def test_argmax_as_numpy(shape, axis, keepdims):
    assume(shape or axis is None)  # NumPy lets axis 0 pass for 0-d
    try:
        expected = np.argmax(zeros(shape), axis=axis, keepdims=keepdims)
    except (ValueError, np.exceptions.AxisError):
        with pytest.raises(ArgumentError):
            bound("argmax", [zeros(shape)], axis=axis, keepdims=keepdims)
        return
    problem = bound("argmax", [zeros(shape)], axis=axis, keepdims=keepdims)
    assert problem.results[0].shape == np.shape(expected)


@common
@given(shapes, st.one_of(st.none(), st.lists(st.integers(-5, 4), max_size=4)))
def test_transpose_as_numpy(shape, axes):
    axes = None if axes is None else tuple(axes)
    try:
        expected = np.transpose(zeros(shape), axes).shape
    except (ValueError, np.exceptions.AxisError):
        with pytest.raises(ArgumentError):
            bound("transpose", [zeros(shape)], axes=axes)
        return
    assert bound("transpose", [zeros(shape)], axes=axes).results[0].shape == expected


@common
@given(st.tuples(st.integers(1, 4), small), shapes)
def test_embedding_as_numpy(table, indices):
    expected = zeros(table)[zeros(indices, np.int64)].shape
    problem = bound("embedding", [zeros(table), zeros(indices, np.int64)])
    assert problem.results[0].shape == expected


@common
@given(*[st.integers(1, 7)] * 2, *[st.integers(1, 3)] * 4, *[st.integers(0, 2)] * 2)
def test_conv2d_output_size(height, width, kh, kw, stride, dilation, ph, pw):
    """Counted: positions where the dilated kernel lies inside of the padded input."""

    def count(extent, kernel, padding):
        reach = dilation * (kernel - 1) + 1
        return len(range(0, extent + 2 * padding - reach + 1, stride))

    size = count(height, kh, ph), count(width, kw, pw)
    operands = [zeros((1, 2, height, width)), zeros((3, 2, kh, kw))]
    params = {"stride": stride, "dilation": dilation, "padding": (ph, pw)}
    if 0 in size:
        with pytest.raises(ArgumentError):
            bound("conv2d", operands, **params)
        return
    assert bound("conv2d", operands, **params).results[0].shape == (1, 3, *size)


@common
@given(*[st.integers(0, 5)] * 4, st.sampled_from([(1, 1), (2, 1), (4, 2), (6, 3), (6, 6)]))
def test_attention_mask_as_numpy(b, s, t, d, heads):
    h, hk = heads
    q, k, v = zeros((b, h, s, d)), zeros((b, hk, t, d)), zeros((b, hk, t, 3))
    for mask in ((t,), (s, t), (1, 1, t), (b, 1, s, 1), (2, s, t), (h, s, t), (b, h, s, t, 1)):
        try:
            np.broadcast_to(zeros(mask), (b, h, s, t))
        except ValueError:
            with pytest.raises(ArgumentError):
                bound("attention", {"q": q, "k": k, "v": v, "mask": zeros(mask, bool)})
            continue
        problem = bound("attention", {"q": q, "k": k, "v": v, "mask": zeros(mask, bool)})
        assert problem.results[0].shape == (b, h, s, 3)


INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["sum", "mean", "max", "matmul"])
def test_result_dtype_of_integers_as_numpy(name, dtype):
    x = np.ones((2, 2), dtype)
    expected = np.matmul(x, x) if name == "matmul" else getattr(np, name)(x)
    problem = bound(name, [x, x] if name == "matmul" else [x])
    assert problem.results[0].dtype == expected.dtype.name


@pytest.mark.parametrize("name", NAMES)
def test_problems_are_complete_keys(name):
    """Hashable, printable, dense results, every parameter present, the op's version."""
    for found in op(name).cases():
        problem, _ = posed(name, found, cases.dtypes_of(op(name), found)[0])
        hash(problem)
        assert str(problem).startswith(name)
        assert {n for n, _ in problem.params} == set(op(name).params)
        assert all(r.strides is None for r in problem.results)
        assert (problem.op, problem.version) == (name, op(name).version)
        again = op(name).bind(
            dict(zip(problem.operands, problem.tensors, strict=True)), dict(problem.params)
        )
        assert again == problem, "binding completed parameters again changes nothing"


@pytest.mark.parametrize("name", NAMES)
def test_numpy_scalars_are_parameters_too(name):
    if "axis" in op(name).params:
        params = {"axis": np.int64(0)}
        assert bound(name, [zeros((2, 3))], **params) == bound(name, [zeros((2, 3))], axis=0)
    if "keepdims" in op(name).params:
        one = bound(name, [zeros((2, 3))], axis=0, keepdims=np.True_)
        assert one.results[0].shape == (1, 3)
    if "eps" in op(name).params:
        arrays = {n: zeros((2, 3)) for n in ("x", "residual") if n in op(name).operand_names}
        assert bound(name, arrays, eps=np.float32(0.5)).param("eps") == 0.5


def test_defaults_are_completed():
    q = TensorSpec((1, 2, 3, 16), "float32")
    problem = cases.problem_of(op("attention"), {"q": q, "k": q, "v": q})
    assert problem.param("scale") == 0.25
    assert problem.param("causal") is False
    x, w = TensorSpec((1, 2, 5, 5), "float32"), TensorSpec((4, 2, 3, 3), "float32")
    problem = cases.problem_of(op("conv2d"), {"x": x, "w": w}, {"padding": [1, 0]})
    assert problem.param("stride") == (1, 1)
    assert problem.param("padding") == (1, 0)
    problem = cases.problem_of(op("softmax"), {"x": TensorSpec((2, 3), "float16")})
    assert problem.param("axis") == 1


def test_block_of_quantized_matmul_is_found():
    def block(a, b, scale_a, scale_b, given=None):
        specs = {
            "a": TensorSpec(a, "int8"), "b": TensorSpec(b, "int8"),
            "scale_a": TensorSpec(scale_a, "float32"), "scale_b": TensorSpec(scale_b, "float32"),
        }  # fmt: skip
        params = {"out_dtype": "float32", "block": given}
        return cases.problem_of(op("quantized_matmul"), specs, params).param("block")

    a, b = (4, 300), (300, 200)
    assert block(a, b, (), ()) == 0
    assert block(a, b, (4, 1), (1, 200)) == 0
    assert block(a, b, (4, 3), (3, 2)) == 128
    assert block(a, b, (4, 5), (5, 4)) == 64
    assert block(a, b, (4, 3), (3, 2), 110) == 110
    assert block(a, b, (4, 1), (3, 2)) == 128
    assert block(a, b, (4, 3), ()) == 128
    assert block((4, 100), (100, 50), (4, 1), (1, 1)) == 128


@pytest.mark.parametrize("name", ["sum", "mean", "max", "argmax", "cumsum", "softmax"])
def test_a_0d_array_has_no_axis(name):
    with pytest.raises(ArgumentError, match="0-d array has no axis"):
        bound(name, [zeros(())], axis=0)
