"""References against formulas written out in plain Python, and against known values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from portable import cases
from tests.ops.common import op

rng = np.random.default_rng(0)


def reference(name, *arrays, **params):
    arrays = [a if a is None else np.asarray(a) for a in arrays]
    problem = cases.problem_of(op(name), arrays, params)
    given = [a for a in arrays if a is not None]
    results = op(name).reference(problem, given)
    for result, spec in zip(results, problem.results, strict=True):
        assert result.shape == spec.shape
    return results if len(results) > 1 else results[0]


def normal(*shape):
    return rng.standard_normal(shape)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_matmul():
    a, b = normal(2, 3, 4), normal(4, 5)
    y = reference("matmul", a, b)
    for n, i, j in np.ndindex(2, 3, 5):
        assert y[n, i, j] == pytest.approx(math.fsum(a[n, i, k] * b[k, j] for k in range(4)))
    assert reference("matmul", [1.0, 2.0], [3.0, 4.0]) == 11
    assert np.array_equal(reference("matmul", np.ones((2, 0)), np.ones((0, 3))), np.zeros((2, 3)))


def test_integer_matmul_wraps_and_bool_is_any():
    x = np.array([[100, 100]], np.int8)
    assert reference("matmul", x, x.T)[0, 0] == np.int8(20000 % 256)
    t = np.array([[True, False]])
    assert reference("matmul", t, t.T).dtype == np.bool_
    assert reference("matmul", t, t.T)[0, 0]


ACTIVATIONS = {
    None: lambda v: v,
    "relu": lambda v: max(v, 0.0),
    "gelu": lambda v: v * 0.5 * math.erfc(-v / math.sqrt(2)),
    "gelu_tanh": lambda v: v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    "silu": lambda v: v / (1 + math.exp(-v)),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_linear(activation):
    x, w, bias, residual = normal(3, 4), normal(4, 5), normal(5), normal(3, 5)
    y = reference("linear", x, w, bias, residual, activation=activation)
    f = ACTIVATIONS[activation]
    for i, j in np.ndindex(3, 5):
        before = math.fsum(x[i, k] * w[k, j] for k in range(4)) + bias[j]
        assert y[i, j] == pytest.approx(f(before) + residual[i, j])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_and_its_logarithm(axis):
    x = normal(3, 4, 5)
    y = np.moveaxis(reference("softmax", x, axis=axis), axis, -1)
    z = np.moveaxis(reference("log_softmax", x, axis=axis), axis, -1)
    rows = np.moveaxis(x, axis, -1)
    for i in np.ndindex(rows.shape[:-1]):
        e = [math.exp(v) for v in rows[i]]
        close(y[i], [v / math.fsum(e) for v in e])
        close(z[i], [v - math.log(math.fsum(e)) for v in rows[i]])


def test_softmax_of_special_rows():
    inf = np.inf
    x = np.array([[-inf, -inf], [inf, 0], [np.nan, 0], [-inf, 1], [1000.0, 1000.0]])
    y = reference("softmax", x)
    assert np.isnan(y[:3]).all()
    assert y[3].tolist() == [0, 1]
    assert y[4].tolist() == [0.5, 0.5]
    z = reference("log_softmax", x)
    assert np.isnan(z[:3]).all()
    assert z[3].tolist() == [-inf, 0]
    assert reference("softmax", np.ones((2, 0))).shape == (2, 0)


def test_norms():
    x, weight, bias, residual = normal(3, 6), normal(6), normal(6), normal(3, 6)
    layer = reference("layer_norm", x, weight, bias, eps=0.1)
    rms = reference("rms_norm", x, weight, eps=0.1)
    y, s = reference("add_rms_norm", x, residual, weight, eps=0.1)
    for i in range(3):
        mean = math.fsum(x[i]) / 6
        variance = math.fsum((v - mean) ** 2 for v in x[i]) / 6
        close(layer[i], [(v - mean) / math.sqrt(variance + 0.1) for v in x[i]] * weight + bias)
        root = math.sqrt(math.fsum(v * v for v in x[i]) / 6 + 0.1)
        close(rms[i], x[i] / root * weight)
        total = x[i] + residual[i]
        close(s[i], total)
        close(y[i], total / math.sqrt(math.fsum(v * v for v in total) / 6 + 0.1) * weight)
    close(reference("layer_norm", np.full((1, 4), 7.0), None, np.arange(4.0)), [[0, 1, 2, 3]])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, "bool", "added"])
@pytest.mark.parametrize(("s", "t"), [(3, 5), (5, 3), (4, 4)])
def test_attention(causal, mask, s, t):
    q, k, v = normal(2, 4, s, 3), normal(2, 2, t, 3), normal(2, 2, t, 2)
    given = {"bool": rng.random((4, s, t)) < 0.7, "added": normal(s, t)}.get(mask)
    o = reference("attention", q, k, v, given, causal=causal, scale=0.7)
    for b, h, i in np.ndindex(2, 4, s):
        kept = {}
        for j in range(t):
            if causal and j > i + t - s:
                continue
            score = 0.7 * math.fsum(q[b, h, i] * k[b, h // 2, j])
            if mask == "bool" and not given[h, i, j]:
                continue
            kept[j] = score + (given[i, j] if mask == "added" else 0.0)
        total = math.fsum(map(math.exp, kept.values()))
        for d in range(2):
            weighted = math.fsum(math.exp(p) * v[b, h // 2, j, d] for j, p in kept.items())
            assert o[b, h, i, d] == pytest.approx(weighted / total if kept else 0.0)


def test_attention_without_keys_is_zero():
    q = np.ones((1, 2, 3, 4))
    empty = np.ones((1, 2, 0, 4))
    assert not reference("attention", q, empty, empty).any()
    masked = np.zeros((3, 3), bool)
    assert not reference("attention", q, q, q, masked).any()
    assert not reference("attention", q, q, q, np.full((3, 3), -np.inf)).any()
    nothing = np.ones((1, 1, 2, 0))
    v = np.array([[[[1.0], [3.0]]]])
    assert reference("attention", nothing, nothing, v).ravel().tolist() == [2, 2]


def test_a_masked_key_is_not_seen_whatever_its_value():
    q, v = np.ones((1, 1, 2, 1)), np.array([[[[1.0], [np.nan]]]])
    o = reference("attention", q, np.ones((1, 1, 2, 1)), v, causal=True)
    assert o[0, 0, 0, 0] == 1
    assert np.isnan(o[0, 0, 1, 0])


def test_rope():
    x = normal(2, 3, 6)
    angle = normal(3, 3)
    half = reference("rope", x, np.cos(angle), np.sin(angle))
    pairs = reference("rope", x, np.cos(angle), np.sin(angle), interleaved=True)
    for b, s, i in np.ndindex(2, 3, 3):
        turn = complex(math.cos(angle[s, i]), math.sin(angle[s, i]))
        z = complex(x[b, s, i], x[b, s, i + 3]) * turn
        close([half[b, s, i], half[b, s, i + 3]], [z.real, z.imag])
        z = complex(x[b, s, 2 * i], x[b, s, 2 * i + 1]) * turn
        close([pairs[b, s, 2 * i], pairs[b, s, 2 * i + 1]], [z.real, z.imag])


def test_activations():
    x, up = normal(50), normal(50)
    close(reference("gelu", x), [ACTIVATIONS["gelu"](v) for v in x])
    close(reference("gelu", x, approximate="tanh"), [ACTIVATIONS["gelu_tanh"](v) for v in x])
    close(
        reference("swiglu", x, up), [ACTIVATIONS["silu"](g) * u for g, u in zip(x, up, strict=True)]
    )
    # No cancellation: Phi(-9) = 1.1285884059538324e-19 (tables of the normal distribution).
    assert reference("gelu", [-9.0])[0] == pytest.approx(-9 * 1.1285884059538324e-19, rel=1e-12)


def test_reductions():
    x = normal(2, 3, 4)
    for axis in (None, 0, 1, 2, (0, 2), ()):
        for keepdims in (False, True):
            how = {"axis": axis, "keepdims": keepdims}
            close(reference("sum", x, **how), x.sum(axis=axis, keepdims=keepdims))
            close(reference("mean", x, **how), x.mean(axis=axis, keepdims=keepdims))
            assert np.array_equal(reference("max", x, **how), x.max(axis=axis, keepdims=keepdims))
    assert reference("sum", np.ones((0, 2)), axis=0).tolist() == [0, 0]
    assert np.isnan(reference("mean", np.ones((0, 2)), axis=0)).all()
    assert np.isnan(reference("max", [1.0, np.nan, 3.0]))
    assert reference("sum", np.array([200, 100], np.uint8)) == 300
    assert reference("mean", np.array([1, 2], np.int8)) == 1.5


def test_argmax():
    assert reference("argmax", [[1.0, 5, 5], [7, 2, 7]]).item() == 3
    assert reference("argmax", [[1.0, 5, 5], [7, 2, 7]], axis=1).tolist() == [1, 0]
    assert reference("argmax", [1.0, np.nan, 3, np.nan]).item() == 1


def test_cumsum():
    x = normal(3, 5)
    close(reference("cumsum", x, axis=1), [list(itertools.accumulate(row)) for row in x])
    small = np.array([100, 100], np.int8)
    assert reference("cumsum", small, axis=0).tolist() == [100, -56]


def test_transpose_and_embedding():
    x = normal(2, 3, 4)
    y = reference("transpose", x, axes=(2, 0, 1))
    for i, j, k in np.ndindex(2, 3, 4):
        assert y[k, i, j] == x[i, j, k]
    table = normal(5, 2)
    y = reference("embedding", table, np.array([[4, 0], [0, 1]]))
    assert np.array_equal(y[0, 0], table[4])
    assert np.array_equal(y[1], table[:2])


@pytest.mark.parametrize("ignore", [None, 1, -100])
def test_cross_entropy(ignore):
    logits, targets = normal(6, 4), np.array([0, 1, 2, 3, 1, 0])
    if ignore == -100:
        targets[2] = -100
    losses, kept = [], 0
    for row, target in zip(logits, targets, strict=True):
        counts = target != ignore
        kept += counts
        total = math.fsum(map(math.exp, row))
        losses.append(math.log(total) - row[target] if counts else 0.0)
    how = {"ignore_index": ignore}
    close(reference("cross_entropy", logits, targets, reduction="none", **how), losses)
    close(reference("cross_entropy", logits, targets, reduction="sum", **how), math.fsum(losses))
    close(reference("cross_entropy", logits, targets, **how), math.fsum(losses) / kept)


def test_mean_cross_entropy_of_no_row_is_nan():
    one = reference("cross_entropy", np.ones((2, 3)), np.array([0, 0]), ignore_index=0)
    assert np.isnan(one)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [1, (2, 1)])
@pytest.mark.parametrize("dilation", [1, (1, 2)])
def test_conv2d(groups, stride, dilation):
    x, w, bias = normal(2, 4, 6, 7), normal(6, 4 // groups, 3, 2), normal(6)
    padding = (1, 2)
    y = reference("conv2d", x, w, bias, stride=stride, padding=padding, dilation=dilation,
                  groups=groups)  # fmt: skip
    sh, sw = (stride, stride) if isinstance(stride, int) else stride
    dh, dw = (dilation, dilation) if isinstance(dilation, int) else dilation
    for n, o, i, j in itertools.islice(np.ndindex(*y.shape), 0, None, 7):
        first = o // (6 // groups) * (4 // groups)
        terms = [bias[o]]
        for c, a, b in np.ndindex(*w.shape[1:]):
            row, column = i * sh + a * dh - 1, j * sw + b * dw - 2
            if 0 <= row < 6 and 0 <= column < 7:
                terms.append(x[n, first + c, row, column] * w[o, c, a, b])
        assert y[n, o, i, j] == pytest.approx(math.fsum(terms))


SCALES = {
    "tensor": ((), ()), "row": ((3, 1), (1, 5)), "block": ((3, 3), (3, 2)),
    "mixed": ((3, 1), (3, 2)), "mixed back": ((3, 3), (1, 5)),
}  # fmt: skip


@pytest.mark.parametrize("kind", SCALES)
def test_quantized_matmul(kind):
    shape_a, shape_b = SCALES[kind]
    a = rng.integers(-127, 128, (3, 10), np.int8)
    b = rng.integers(-127, 128, (10, 5), np.int8)
    scale_a, scale_b = (np.asarray(rng.random(s), np.float32) for s in (shape_a, shape_b))
    block = 4 if 3 in (*shape_a[1:], *shape_b[:1]) else None
    y = reference("quantized_matmul", a, b, scale_a, scale_b, out_dtype="float32", block=block)

    def of_a(i, k):
        row = {(): (), (3, 1): (i, 0)}.get(shape_a, (i, k // 4))
        return float(scale_a[row])

    def of_b(k, j):
        place = {(): (), (1, 5): (0, j)}.get(shape_b, (k // 4, j // 4))
        return float(scale_b[place])

    for i, j in np.ndindex(3, 5):
        terms = [of_a(i, k) * int(a[i, k]) * of_b(k, j) * int(b[k, j]) for k in range(10)]
        assert y[i, j] == pytest.approx(math.fsum(terms), rel=1e-9)
