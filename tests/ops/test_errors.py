"""Every mistake of a caller: the class of the error, what was given, what is allowed."""

from __future__ import annotations

import numpy as np
import pytest

from portable import cases, errors
from portable.op import TensorSpec
from tests.ops.common import NAMES, op


def spec(*shape, dtype="float32"):
    return TensorSpec(shape, dtype)


S, D, P = errors.ShapeError, errors.DTypeError, errors.ParameterError
HALF = "float16"

# op, operands, params, error, parts of the message
MISTAKES = [
    ("matmul", {"a": spec(3, 4), "b": spec(5, 6)}, {}, S, ("(3, 4)", "(5, 6)", "4", "5")),
    ("matmul", {"a": spec(3, 4), "b": spec(5, 4)}, {}, S, ("b.mT",)),
    ("matmul", {"a": spec(), "b": spec(4)}, {}, S, ("0-d", "at least one axis")),
    ("matmul", {"a": spec(4), "b": spec(5)}, {}, S, ("(4,)", "(5,)")),
    ("matmul", {"a": spec(2, 3, 4), "b": spec(3, 4, 5)}, {}, S, ("broadcast", "a (2,)", "b (3,)")),
    ("matmul", {"a": spec(2, 2), "b": spec(2, 2, dtype=HALF)}, {}, D, ("float32", "astype")),
    ("matmul", {"a": spec(2, 2, dtype="complex64"), "b": spec(2, 2, dtype="complex64")}, {}, D,
     ("complex64", "allowed", "float64")),
    ("matmul", {"a": spec(2**40, 1), "b": spec(1, 2**40)}, {}, S, ("bytes",)),
    ("matmul", {"a": spec(2, 2)}, {}, P, ("operand 'b'",)),
    ("matmul", {"a": spec(2, 2), "b": spec(2, 2), "c": spec(2)}, {}, errors.UnknownNameError,
     ("'c'", "a, b")),
    ("matmul", {"a": spec(2, 2), "b": spec(2, 2)}, {"axis": 1}, errors.UnknownNameError,
     ("'axis'",)),
    ("linear", {"x": spec(3, 4), "w": spec(5, 4)}, {}, S, ("w.T", "(k, n)")),
    ("linear", {"x": spec(3, 4), "w": spec(4)}, {}, S, ("w", "2-d", "(k, n)")),
    ("linear", {"x": spec(), "w": spec(4, 4)}, {}, S, ("0-d",)),
    ("linear", {"x": spec(3, 4), "w": spec(4, 5), "bias": spec(4)}, {}, S, ("bias", "(5,)")),
    ("linear", {"x": spec(3, 4), "w": spec(4, 5), "residual": spec(5)}, {}, S, ("(3, 5)",)),
    ("linear", {"x": spec(3, 4), "w": spec(4, 5)}, {"activation": "tanh"}, P,
     ("'tanh'", "None", "'gelu_tanh'")),
    ("linear", {"x": spec(3, 4), "w": spec(4, 5), "bias": spec(5, dtype=HALF)}, {}, D,
     ("bias is float16", "float32")),
    ("linear", {"x": spec(3, 4, dtype="int32"), "w": spec(4, 5)}, {}, D, ("int32", "astype")),
    ("softmax", {"x": spec(3, 4)}, {"axis": 2}, S, ("axis 2", "(3, 4)", "-2 to 1")),
    ("softmax", {"x": spec(3, 4)}, {"axis": "last"}, P, ("'last'", "integer")),
    ("softmax", {"x": spec(3, 4)}, {"axis": True}, P, ("True", "integer")),
    ("softmax", {"x": spec(3, 4)}, {"axis": 1.0}, P, ("1.0", "integer")),
    ("softmax", {"x": spec(3, 4)}, {"axis": None}, P, ("None", "integer")),
    ("softmax", {"x": spec()}, {}, S, ("0-d", "reshape(1)")),
    ("softmax", {"x": spec(3, dtype="int64")}, {}, D, ("int64", "float64")),
    ("log_softmax", {"x": spec(3, 4)}, {"axis": -3}, S, ("axis -3",)),
    ("layer_norm", {"x": spec(3, 4), "weight": spec(3)}, {}, S, ("weight", "(4,)")),
    ("layer_norm", {"x": spec(3, 4), "bias": spec(1, 4)}, {}, S, ("bias", "(4,)")),
    ("layer_norm", {"x": spec(3, 4)}, {"eps": -1e-5}, P, ("eps", "positive")),
    ("layer_norm", {"x": spec(3, 4)}, {"eps": "small"}, P, ("'small'", "number")),
    ("layer_norm", {"x": spec(3, 4)}, {"eps": float("nan")}, P, ("nan", "finite")),
    ("layer_norm", {"x": spec(3, 4)}, {"eps": True}, P, ("True", "number")),
    ("layer_norm", {"x": spec()}, {}, S, ("0-d",)),
    ("rms_norm", {"x": spec(3, 4), "weight": spec(4, dtype=HALF)}, {}, D, ("weight is float16",)),
    ("rms_norm", {"x": spec(3, 4)}, {"eps": None}, P, ("None",)),
    ("add_rms_norm", {"x": spec(3, 4), "residual": spec(4)}, {}, S, ("residual", "(3, 4)")),
    ("add_rms_norm", {"x": spec(3, 4)}, {}, P, ("'residual'",)),
    ("gelu", {"x": spec(3)}, {"approximate": "erf"}, P, ("'erf'", "'none'", "'tanh'")),
    ("gelu", {"x": spec(3)}, {"approximate": True}, P, ("True",)),
    ("gelu", {"x": spec(3, dtype="bool")}, {}, D, ("bool",)),
    ("swiglu", {"gate": spec(3, 4), "up": spec(4)}, {}, S, ("up", "(3, 4)")),
    ("swiglu", {"gate": spec(3), "up": spec(3, dtype="float64")}, {}, D, ("float64",)),
    ("sum", {"x": spec(3, 4)}, {"axis": 2}, S, ("axis 2",)),
    ("sum", {"x": spec(3, 4)}, {"axis": (0, -2)}, S, ("twice",)),
    ("sum", {"x": spec(3, 4)}, {"axis": (0, "1")}, P, ("'1'",)),
    ("sum", {"x": spec(3, 4)}, {"keepdims": 1}, P, ("keepdims", "True or False")),
    ("sum", {"x": spec(3, dtype="complex128")}, {}, D, ("complex128",)),
    ("max", {"x": spec(0, 4)}, {"axis": 0}, S, ("nothing", "(0, 4)")),
    ("max", {"x": spec(0)}, {}, S, ("nothing",)),
    ("mean", {"x": spec(3, dtype="float8_e4m3fn")}, {}, D, ("float8_e4m3fn",)),
    ("argmax", {"x": spec(4, 0)}, {"axis": 1}, S, ("nothing",)),
    ("argmax", {"x": spec(4, 3)}, {"axis": (0,)}, P, ("integer",)),
    ("argmax", {"x": spec(4, 3)}, {"keepdims": None}, P, ("keepdims",)),
    ("cumsum", {"x": spec(4, 3)}, {}, P, ("axis", "integer")),
    ("cumsum", {"x": spec(4, 3)}, {"axis": 5}, S, ("axis 5",)),
    ("cumsum", {"x": spec(4, dtype="bool")}, {"axis": 0}, D, ("bool",)),
    ("transpose", {"x": spec(4, 3)}, {"axes": (0, 0)}, S, ("once",)),
    ("transpose", {"x": spec(4, 3)}, {"axes": (0,)}, S, ("once",)),
    ("transpose", {"x": spec(4, 3)}, {"axes": (0, 2)}, S, ("axis 2",)),
    ("transpose", {"x": spec(4, 3)}, {"axes": 1}, P, ("tuple",)),
    ("embedding", {"table": spec(4), "indices": spec(2, dtype="int64")}, {}, S, ("2-d",)),
    ("embedding", {"table": spec(4, 3), "indices": spec(2)}, {}, D, ("indices", "int64")),
    ("embedding", {"table": spec(0, 3), "indices": spec(2, dtype="int64")}, {}, S, ("no row",)),
    ("embedding", {"table": spec(4, 3), "indices": spec(2, dtype="bool")}, {}, D, ("bool",)),
    ("cross_entropy", {"logits": spec(4), "targets": spec(4, dtype="int64")}, {}, S, ("2-d",)),
    ("cross_entropy", {"logits": spec(4, 3), "targets": spec(3, dtype="int64")}, {}, S,
     ("targets", "(4,)")),
    ("cross_entropy", {"logits": spec(4, 3), "targets": spec(4)}, {}, D, ("targets", "int64")),
    ("cross_entropy", {"logits": spec(4, 0), "targets": spec(4, dtype="int64")}, {}, S,
     ("no class",)),
    ("cross_entropy", {"logits": spec(4, 3), "targets": spec(4, dtype="int32")},
     {"reduction": "avg"}, P, ("'avg'", "'mean'")),
    ("cross_entropy", {"logits": spec(4, 3), "targets": spec(4, dtype="int32")},
     {"ignore_index": 1.5}, P, ("1.5",)),
]  # fmt: skip

X, W = spec(1, 4, 8, 8), spec(6, 4, 3, 3)
MISTAKES += [
    ("conv2d", {"x": spec(4, 8, 8), "w": W}, {}, S, ("4-d", "batch")),
    ("conv2d", {"x": X, "w": spec(6, 3, 3, 3)}, {}, S, ("3 channels", "OIHW")),
    ("conv2d", {"x": X, "w": W}, {"groups": 3}, S, ("groups is 3", "divide")),
    ("conv2d", {"x": X, "w": W}, {"groups": 0}, P, ("groups is 0", "at least 1")),
    ("conv2d", {"x": X, "w": W}, {"stride": 0}, P, ("stride is 0",)),
    ("conv2d", {"x": X, "w": W}, {"padding": (1, -1)}, P, ("padding is -1", "at least 0")),
    ("conv2d", {"x": X, "w": W}, {"padding": "same"}, P, ("'same'", "integer")),
    ("conv2d", {"x": X, "w": W}, {"dilation": (1, 2, 3)}, P, ("pair",)),
    ("conv2d", {"x": X, "w": W}, {"dilation": 4}, S, ("covers 9 rows", "has 8")),
    ("conv2d", {"x": X, "w": spec(6, 4, 0, 3)}, {}, S, ("empty kernel",)),
    ("conv2d", {"x": X, "w": W, "bias": spec(4)}, {}, S, ("bias", "(6,)")),
    ("conv2d", {"x": X, "w": spec(6, 4, 3, 3, dtype=HALF)}, {}, D, ("float16",)),
]

Q, K = spec(2, 4, 5, 8), spec(2, 2, 7, 8)
MISTAKES += [
    ("attention", {"q": spec(4, 5, 8), "k": K, "v": K}, {}, S, ("q", "4-d", "head_dim")),
    ("attention", {"q": spec(1, 4, 5, 8), "k": K, "v": K}, {}, S, ("batch",)),
    ("attention", {"q": spec(2, 4, 5, 6), "k": K, "v": K}, {}, S, ("head_dim", "6", "8")),
    ("attention", {"q": Q, "k": K, "v": spec(2, 2, 6, 8)}, {}, S, ("same heads",)),
    ("attention", {"q": spec(2, 3, 5, 8), "k": K, "v": K}, {}, S, ("3 heads", "divide")),
    ("attention", {"q": Q, "k": K, "v": K}, {"causal": 1}, P, ("causal", "True or False")),
    ("attention", {"q": Q, "k": K, "v": K}, {"scale": "auto"}, P, ("'auto'", "number")),
    ("attention", {"q": Q, "k": K, "v": K}, {"scale": float("inf")}, P, ("finite",)),
    ("attention", {"q": Q, "k": K, "v": K, "mask": spec(5, 6)}, {}, S, ("(5, 6)", "(2, 4, 5, 7)")),
    ("attention", {"q": Q, "k": K, "v": K, "mask": spec(5, 7, dtype="int32")}, {}, D,
     ("mask is int32", "bool")),
    ("attention", {"q": Q, "k": K, "v": K, "mask": spec(5, 7, dtype=HALF)}, {}, D, ("float32",)),
    ("rope", {"x": spec(5, 7), "cos": spec(5, 3), "sin": spec(5, 3)}, {}, S, ("odd",)),
    ("rope", {"x": spec(8), "cos": spec(4), "sin": spec(4)}, {}, S, ("sequence",)),
    ("rope", {"x": spec(5, 8), "cos": spec(5, 8), "sin": spec(5, 8)}, {}, S, ("cos[..., :4]",)),
    ("rope", {"x": spec(5, 8), "cos": spec(6, 4), "sin": spec(6, 4)}, {}, S, ("(5, 4)",)),
    ("rope", {"x": spec(5, 8), "cos": spec(5, 1), "sin": spec(5, 1)}, {}, S, ("(5, 4)",)),
    ("rope", {"x": spec(5, 8, dtype=HALF), "cos": spec(5, 4, dtype="float64"),
              "sin": spec(5, 4, dtype="float64")}, {}, D, ("cos is float64", "float16, float32")),
    ("rope", {"x": spec(5, 8, dtype=HALF), "cos": spec(5, 4, dtype=HALF), "sin": spec(5, 4)}, {}, D,
     ("cos is float16", "sin is float32")),
    ("rope", {"x": spec(5, 8), "cos": spec(5, 4), "sin": spec(5, 4)}, {"interleaved": 0}, P,
     ("interleaved",)),
]  # fmt: skip


def _quantized(a=(4, 300), b=(300, 200), scale_a=(), scale_b=(), dtype="int8", **params):
    operands = {
        "a": spec(*a, dtype=dtype), "b": spec(*b, dtype="int8"),
        "scale_a": spec(*scale_a), "scale_b": spec(*scale_b),
    }  # fmt: skip
    return operands, {"out_dtype": "float32", **params}


MISTAKES += [
    ("quantized_matmul", *_quantized(b=(200, 300)), S, ("300 columns", "200 rows")),
    ("quantized_matmul", *_quantized(scale_a=(4,)), S, ("(4, 1) per row", "block=B", "128")[:1]),
    ("quantized_matmul", *_quantized(scale_a=(4, 7), scale_b=(7, 5)), S, ("do not fit",)),
    ("quantized_matmul", *_quantized(scale_a=(4, 3), block=64), S, ("with block 64",)),
    ("quantized_matmul", *_quantized(block=-1), P, ("block is -1",)),
    ("quantized_matmul", *_quantized(block=64), S, ("with block 64",)),
    ("quantized_matmul", *_quantized(dtype="float8_e4m3fn"), D, ("float8_e4m3fn", "int8")),
    ("quantized_matmul", *_quantized(dtype="float32"), D, ("float32", "int8")),
    ("quantized_matmul", *_quantized(out_dtype="int8"), D, ("out_dtype", "bfloat16")),
    ("quantized_matmul", *_quantized(out_dtype="float33"), D, ("float33",)),
    ("quantized_matmul", *_quantized(out_dtype=7), D, ("7", "bfloat16")),
]


@pytest.mark.parametrize(
    ("name", "operands", "params", "error", "parts"),
    MISTAKES,
    ids=[f"{m[0]}-{i}" for i, m in enumerate(MISTAKES)],
)
def test_mistake(name, operands, params, error, parts):
    with pytest.raises(error) as caught:
        cases.problem_of(op(name), operands, params)
    message = str(caught.value)
    for part in parts:
        assert part in message
    assert name in message
    assert isinstance(caught.value, ValueError | TypeError)


@pytest.mark.parametrize("name", NAMES)
def test_every_op_has_a_tested_mistake(name):
    assert any(m[0] == name for m in MISTAKES)


@pytest.mark.parametrize("name", NAMES)
def test_missing_operand(name):
    first = op(name).operand_names[0]
    with pytest.raises(P, match=f"operand '{first}'"):
        cases.problem_of(op(name), {})


def test_public_functions_raise_the_same():
    import portable

    with pytest.raises(S, match="both must be the same k"):
        portable.matmul(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(D, match="astype"):
        portable.matmul(np.ones((2, 3)), np.ones((3, 2), np.float32))
    with pytest.raises(P, match="must be one of"):
        portable.linear(np.ones((2, 3)), np.ones((3, 2)), activation="swish")
