"""Error bounds accept a correct implementation everywhere and reject wrong ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portable import cases, check, dtypes
from portable.op import Case, Operand
from portable.ops import _winograd
from tests.ops import right
from tests.ops.common import NAMES, case, op, posed


@pytest.mark.parametrize("name", NAMES)
def test_correct_implementation_passes_every_case(name):
    for found in op(name).cases():
        for dtype in cases.dtypes_of(op(name), found):
            problem, arrays = posed(name, found, dtype)
            wrong = check.check(op(name), problem, arrays, right.run(problem, arrays))
            assert not wrong, (found.name, dtype, wrong)


@pytest.mark.parametrize("name", ["matmul", "softmax", "layer_norm", "sum", "attention"])
def test_correct_implementation_passes_other_data(name):
    """The bounds do not hang on one lucky seed."""
    for found in op(name).cases():
        if found.level == "hostile":
            for seed in range(1, 4):
                for dtype in cases.dtypes_of(op(name), found):
                    problem, arrays = posed(name, found, dtype, seed)
                    wrong = check.check(op(name), problem, arrays, right.run(problem, arrays))
                    assert not wrong, (found.name, dtype, seed, wrong)


def _rejected(name, dtype, run, level="core"):
    """(cases rejected, cases run) of non-empty cases."""
    rejected = total = 0
    for found in op(name).cases():
        if found.level != level or dtype not in cases.dtypes_of(op(name), found):
            continue
        problem, arrays = posed(name, found, dtype)
        if any(t.size == 0 for t in (*problem.tensors, *problem.results)):
            continue
        total += 1
        rejected += bool(check.check(op(name), problem, arrays, run(problem, arrays)))
    return rejected, total


# quantized_matmul, the last, takes no float32 and float64 operands.
ROUNDING = [n for n in NAMES if n not in ("max", "argmax", "transpose", "embedding")]


@pytest.mark.parametrize("name", ROUNDING)
def test_half_arithmetic_is_rejected(name):
    """All arithmetic in float16, sums included."""
    dtype = "int8" if name == "quantized_matmul" else "float16"
    rejected, total = _rejected(name, dtype, lambda p, a: right.run(p, a, np.float16))
    assert rejected > total / 2, f"{rejected} of {total}"


@pytest.mark.parametrize("name", ROUNDING[:-1])
def test_half_precision_is_rejected_for_float32(name):
    rejected, total = _rejected(name, "float32", lambda p, a: right.run(p, a, np.float16))
    assert rejected > 0.7 * total, f"{rejected} of {total}"


@pytest.mark.parametrize("name", ROUNDING[:-1])
def test_float32_is_rejected_for_float64(name):
    rejected, total = _rejected(name, "float64", lambda p, a: right.run(p, a, np.float32))
    assert rejected > 0.7 * total, f"{rejected} of {total}"


def _tf32(array):
    if array.dtype != np.float32:
        return array
    bits = np.ascontiguousarray(array).view(np.uint32).reshape(array.shape)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return rounded.view(np.float32)


@pytest.mark.parametrize("name", ["matmul", "linear", "attention", "conv2d"])
def test_tf32_is_rejected_unless_allowed(name):
    def run(problem, arrays):
        named = zip(problem.operands, arrays, strict=True)
        factors = ("a", "b", "x", "w", "q", "k", "v")
        return right.run(problem, [_tf32(a) if n in factors else a for n, a in named])

    rejected, total = _rejected(name, "float32", run)
    assert rejected > 0.6 * total, f"{rejected} of {total}"
    for found in op(name).cases():
        if "float32" in cases.dtypes_of(op(name), found) and found.level == "core":
            problem, arrays = posed(name, found, "float32")
            problem = replace(problem, precision="high")
            wrong = check.check(op(name), problem, arrays, run(problem, arrays))
            assert not wrong, (found.name, wrong)


def test_half_inputs_are_rejected_when_tf32_is_allowed():
    problem, arrays = posed("matmul", case("matmul", "128x96x160"), "float32")
    problem = replace(problem, precision="high")
    bf16 = dtypes.numpy_dtype("bfloat16")
    short = [a.astype(bf16).astype(np.float32) for a in arrays]
    assert check.check(op("matmul"), problem, arrays, right.run(problem, short))


def test_float16_accumulator_in_steps_is_rejected():
    """Float32 inside of a step of 64, float16 between steps, as on some tensor cores."""
    long = Case("long", {"a": Operand((32, 4096)), "b": Operand((4096, 32))})
    problem, arrays = posed("matmul", long, "float16")
    a, b = (x.astype(np.float32) for x in arrays)
    y = np.zeros((32, 32), np.float16)
    for k in range(0, 4096, 64):
        y = (y + a[:, k : k + 64] @ b[k : k + 64]).astype(np.float16)
    assert check.check(op("matmul"), problem, arrays, y)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_one_dropped_k_is_rejected(dtype):
    for name in ("exact small", "exact"):
        problem, arrays = posed("matmul", case("matmul", name), dtype)
        short = [arrays[0][:, :-1], arrays[1][:-1]]
        if name == "exact small":
            assert check.check(op("matmul"), problem, arrays, right.run(problem, short))


def test_exact_cases_are_exact():
    for dtype in ("float64", "float32", "float16", "bfloat16"):
        problem, arrays = posed("matmul", case("matmul", "exact small"), dtype)
        expected = op("matmul").reference(problem, arrays)
        (bound,) = op("matmul").tolerance(problem, arrays, expected)
        assert bound.exact, dtype


WRONG_AXIS = {
    "softmax": ("axis 1", {"axis": 0}), "log_softmax": ("axis 1", {"axis": 0}),
    "cumsum": ("axis 1", {"axis": 0}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_AXIS)
def test_wrong_axis_is_rejected(name):
    found, params = WRONG_AXIS[name]
    problem, arrays = posed(name, case(name, found), "float32")
    other = replace(problem, params=tuple(params.items()))
    assert check.check(op(name), problem, arrays, right.run(other, arrays))


@pytest.mark.parametrize("name", ["sum", "max", "mean", "argmax"])
def test_wrong_axis_of_square_is_rejected(name):
    axes = (0,) if name == "argmax" else ((0,),)
    square = Case("square", {"x": Operand((8, 8))}, {"axis": 1})
    problem, arrays = posed(name, square, "float32")
    other = replace(problem, params=(("axis", *axes), ("keepdims", False)))
    assert check.check(op(name), problem, arrays, right.run(other, arrays))


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "add_rms_norm", "gelu", "swiglu"])
def test_transposed_reading_is_rejected(name):
    """Strides ignored: a square operand read in the other order."""
    found = {o.removesuffix("?"): Operand((8, 8)) for o in op(name).operands if "?" not in o}
    problem, arrays = posed(name, Case("square", found), "float32")
    swapped = [np.ascontiguousarray(a.T) for a in arrays]
    assert check.check(op(name), problem, arrays, right.run(problem, swapped))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("left", [0, 1, -1])
def test_unwritten_tail_is_rejected(name, left):
    """The last element of a result is not what it should be."""
    dtype = "int8" if name == "quantized_matmul" else "float32"
    checked = 0
    for found in op(name).cases():
        if found.level != "core" or dtype not in cases.dtypes_of(op(name), found):
            continue
        problem, arrays = posed(name, found, dtype)
        results = right.run(problem, arrays)
        results = list(results) if isinstance(results, tuple) else [results]
        tail = np.array(results[-1])
        if not tail.size or tail[(-1,) * tail.ndim] == left:
            continue
        tail[(-1,) * tail.ndim] = left
        results[-1] = tail
        assert check.check(op(name), problem, arrays, tuple(results)), found.name
        checked += 1
    assert checked > 5


def test_one_pass_variance_is_rejected():
    """E[x^2] - mean^2 in float32 loses the variance when the mean is large."""
    problem, arrays = posed("layer_norm", case("layer_norm", "fill offset 2000"), "float32")
    x, weight, bias = arrays
    m = x.mean(-1, keepdims=True, dtype=np.float32)
    variance = (x * x).mean(-1, keepdims=True, dtype=np.float32) - m * m
    y = (x - m) / np.sqrt(np.abs(variance) + np.float32(1e-5)) * weight + bias
    assert check.check(op("layer_norm"), problem, arrays, y)


def test_unbiased_variance_is_rejected():
    problem, arrays = posed("layer_norm", case("layer_norm", "with ()"), "float32")
    x = arrays[0].astype(np.float64)
    y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True, ddof=1) + 1e-5)
    assert check.check(op("layer_norm"), problem, arrays, y.astype(np.float32))


def test_softmax_without_maximum_is_rejected():
    problem, arrays = posed("softmax", case("softmax", "fill offset"), "float32")
    with np.errstate(all="ignore"):
        e = np.exp(arrays[0])
        y = e / e.sum(-1, keepdims=True)
    assert check.check(op("softmax"), problem, arrays, y)


def test_causal_aligned_to_the_start_is_rejected():
    found = case("attention", "1 6/2 5x29 40 40 causal")
    problem, arrays = posed("attention", found, "float32")
    q, k, v = (a.astype(np.float64) for a in arrays)
    k, v = np.repeat(k, 3, 1), np.repeat(v, 3, 1)
    s = q @ k.swapaxes(-1, -2) * problem.param("scale")
    s = np.where(np.arange(29) <= np.arange(5)[:, None], s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    y = (p / p.sum(-1, keepdims=True)) @ v
    assert check.check(op("attention"), problem, arrays, y.astype(np.float32))


def test_interleaved_key_heads_are_rejected():
    """Grouped queries: heads share consecutively, not in turn."""
    problem, arrays = posed("attention", case("attention", "1 6/2 5x29 40 40"), "float32")
    shuffled = [arrays[0][:, [0, 2, 4, 1, 3, 5]], *arrays[1:]]
    y = right.run(problem, shuffled)[:, [0, 3, 1, 4, 2, 5]]
    assert check.check(op("attention"), problem, arrays, y)


def test_tanh_gelu_is_no_erf_gelu():
    problem, arrays = posed("gelu", case("gelu", "64x64"), "float32")
    y = right.run(replace(problem, params=(("approximate", "tanh"),)), arrays)
    assert check.check(op("gelu"), problem, arrays, y)


def test_fused_bias_must_not_be_rounded_before():
    """f16: x @ w rounded, then the bias added: where they cancel the bound is broken."""
    found = Case("cancel", {"x": Operand((64, 64)), "w": Operand((64, 64)), "bias": Operand((64,))})
    problem, arrays = posed("linear", found, "float16")
    x, w, _ = (a.astype(np.float32) for a in arrays)
    product = x @ w
    bias = (-product[0]).astype(np.float16)
    y = product.astype(np.float16) + bias
    assert check.check(op("linear"), problem, [arrays[0], arrays[1], bias], y)


def test_fp8_with_a_short_accumulator_is_rejected():
    """14 accumulator bits, as Hopper's fp8 tensor cores keep without promotion."""
    found = Case(
        "long",
        {"a": Operand((16, 4096)), "b": Operand((4096, 16)),
         "scale_a": Operand((), "float32", "ones"), "scale_b": Operand((), "float32", "ones")},
        {"out_dtype": "bfloat16"},
    )  # fmt: skip
    problem, arrays = posed("quantized_matmul", found, "float8_e4m3fn")
    a, b = (x.astype(np.float32) for x in arrays[:2])
    y = np.zeros((16, 16), np.float32)
    for k in range(0, 4096, 32):
        y = y + a[:, k : k + 32] @ b[k : k + 32]
        y = (y.view(np.uint32) & np.uint32(0xFFFFFC00)).view(np.float32)  # 13 mantissa bits
    bf16 = dtypes.numpy_dtype("bfloat16")
    assert check.check(op("quantized_matmul"), problem, arrays, y.astype(bf16))
    good = (a @ b).astype(bf16)
    assert not check.check(op("quantized_matmul"), problem, arrays, good)


def test_scale_of_the_wrong_block_is_rejected():
    found = case("quantized_matmul", "block 128 5x300x200 float32")
    problem, arrays = posed("quantized_matmul", found, "int8")
    swapped = [*arrays[:2], np.roll(arrays[2], 1, 1), arrays[3]]
    y = right.run(problem, swapped)
    assert check.check(op("quantized_matmul"), problem, arrays, y)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_winograd_passes(dtype):
    """F(2x2, 3x3) with its transforms in the accumulator's type is a legal implementation."""
    tried = 0
    for found in op("conv2d").cases():
        problem, arrays = posed("conv2d", found, dtype)
        if not _winograd.fits(problem) or not problem.results[0].size:
            continue
        work = np.dtype("float64" if dtype == "float64" else "float32")
        x, w, *bias = (a.astype(work) for a in arrays)
        y = _winograd.convolve(problem, x, w)
        y = y + bias[0][:, None, None] if bias else y
        with np.errstate(over="ignore"):
            y = y.astype(dtypes.numpy_dtype(dtype))
        wrong = check.check(op("conv2d"), problem, arrays, y)
        assert not wrong, (found.name, wrong)
        tried += 1
    assert tried > 20


def test_winograd_in_half_precision_is_rejected():
    found = case("conv2d", "(1, 64, 14, 14) 32 (3, 3) {'padding': 1}")
    problem, arrays = posed("conv2d", found, "float16")
    y = _winograd.convolve(problem, *arrays)
    assert check.check(op("conv2d"), problem, arrays, y)
