"""Costs: against XLA's own count, against counting by hand, and monotone in every extent."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portable import cases
from portable.op import TensorSpec
from portable.ops.attention import pairs
from portable.ops.conv2d import direct_cost, winograd_cost
from tests.ops.common import NAMES, op, posed


def problem(name, *shapes, dtype="float32", **params):
    return cases.problem_of_shapes(op(name), shapes, dtype, params)


def cost(name, *shapes, dtype="float32", **params):
    return op(name).cost(problem(name, *shapes, dtype=dtype, **params))


def xla(function, *shapes):
    """XLA's cost analysis of a compiled function of float32 arrays."""
    jax = pytest.importorskip("jax")
    arguments = [jax.ShapeDtypeStruct(s, np.float32) for s in shapes]
    found = jax.jit(function).lower(*arguments).compile().cost_analysis()
    return found[0] if isinstance(found, list) else found


def units(found):
    return {w.unit: w.flops for w in found.work}


@pytest.mark.parametrize(
    "shapes", [((64, 32), (32, 48)), ((3, 20, 30), (3, 30, 7)), ((1, 99), (99, 5))]
)
def test_matmul_as_xla(shapes):
    jnp = pytest.importorskip("jax.numpy")
    found = xla(jnp.matmul, *shapes)
    ours = cost("matmul", *shapes)
    assert ours.flops == found["flops"]
    # For a single row XLA counts a broadcast that it makes itself.
    assert ours.bytes <= found["bytes accessed"]
    assert ours.bytes == found["bytes accessed"] or shapes[0][0] == 1


def test_linear_as_xla():
    pytest.importorskip("jax")
    shapes = ((40, 32), (32, 24), (24,), (40, 24))
    found = xla(lambda x, w, b, r: x @ w + b + r, *shapes)
    assert cost("linear", *shapes).flops == found["flops"]


@pytest.mark.parametrize(
    "params", [{}, {"stride": 2}, {"padding": 2}, {"dilation": 2, "padding": 1}]
)
def test_direct_convolution_as_xla(params):
    """Positions on the padding are no work: XLA does not count them either."""
    lax = pytest.importorskip("jax.lax")
    pair = {k: (v, v) for k, v in params.items()}
    shapes = ((2, 3, 15, 12), (5, 3, 3, 3))

    def convolve(x, w):
        return lax.conv_general_dilated(
            x, w, pair.get("stride", (1, 1)), [(p, p) for p in pair.get("padding", (0, 0))],
            rhs_dilation=pair.get("dilation"),
        )  # fmt: skip

    assert (
        direct_cost(problem("conv2d", *shapes, **params)).flops == xla(convolve, *shapes)["flops"]
    )


def test_sum_and_mean_as_xla():
    jnp = pytest.importorskip("jax.numpy")
    found = xla(lambda x: jnp.sum(x, 1), (64, 100))
    # XLA counts n - 1 additions per result, as we do.
    assert cost("sum", (64, 100), axis=1).flops == pytest.approx(found["flops"], rel=0.02)
    found = xla(lambda x: jnp.mean(x, 1), (64, 100))
    assert cost("mean", (64, 100), axis=1).flops == pytest.approx(found["flops"], rel=0.03)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_as_xla(name):
    nn = pytest.importorskip("jax.nn")
    found = xla(getattr(nn, name), (64, 100))
    ours = units(cost(name, (64, 100)))
    # max, subtract, add, scale; XLA has the same four, and one exp per element.
    assert ours["vector"] == pytest.approx(found["flops"], rel=0.1)
    assert ours["special"] == pytest.approx(found["transcendentals"], rel=0.05)


def test_xla_never_does_less():
    """Ours is a lower bound: XLA's operation count of the same formula is not below it."""
    jnp = pytest.importorskip("jax.numpy")
    shape = (64, 256)

    def layer_norm(x, w, b):
        d = x - jnp.mean(x, -1, keepdims=True)
        return d / jnp.sqrt(jnp.mean(d * d, -1, keepdims=True) + 1e-5) * w + b

    def rms_norm(x, w):
        return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w

    def all_of(found):
        return found["flops"] + found.get("transcendentals", 0)

    layer = all_of(xla(layer_norm, shape, (256,), (256,)))
    assert cost("layer_norm", shape, (256,), (256,)).flops <= layer * 1.02
    rms = all_of(xla(rms_norm, shape, (256,)))
    assert cost("rms_norm", shape, (256,)).flops <= rms * 1.02
    silu = all_of(xla(lambda g, u: g / (1 + jnp.exp(-g)) * u, shape, shape))
    assert cost("swiglu", shape, shape).flops <= silu * 1.02


@given(st.integers(0, 12), st.integers(0, 12))
@settings(deadline=None)
def test_causal_pairs_are_counted(s, t):
    shapes = ((1, 1, s, 4), (1, 1, t, 4), (1, 1, t, 4))
    seen = sum(j <= i + t - s for i in range(s) for j in range(t))
    assert pairs(problem("attention", *shapes, causal=True)) == seen
    assert pairs(problem("attention", *shapes)) == s * t


def test_causal_attention_is_about_half():
    shapes = ((2, 4, 64, 32), (2, 2, 64, 32), (2, 2, 64, 32))
    full = units(cost("attention", *shapes))["matrix"]
    assert full == 2 * 2 * 4 * 64 * 64 * (32 + 32)
    assert units(cost("attention", *shapes, causal=True))["matrix"] == full * 65 / 128
    decode = ((2, 4, 1, 32), (2, 2, 64, 32), (2, 2, 64, 32))
    assert cost("attention", *decode, causal=True) == cost("attention", *decode)


def test_attention_queries_that_see_nothing_are_not_read():
    shapes = ((1, 1, 8, 4), (1, 1, 2, 4), (1, 1, 2, 4))
    seen, everything = cost("attention", *shapes, causal=True), cost("attention", *shapes)
    assert everything.bytes_read - seen.bytes_read == 6 * 4 * 4


def test_bytes_by_hand():
    assert cost("matmul", (3, 4), (4, 5)).bytes_read == 4 * (12 + 20)
    assert cost("matmul", (3, 4), (4, 5)).bytes_written == 4 * 15
    assert cost("add_rms_norm", (6, 8), (6, 8), (8,), dtype="float16").bytes_read == 2 * (96 + 8)
    assert cost("add_rms_norm", (6, 8), (6, 8), (8,), dtype="float16").bytes_written == 2 * 96
    assert cost("transpose", (6, 8), dtype="int8").bytes == 96
    assert cost("transpose", (6, 8)).flops == 0
    assert cost("swiglu", (6, 8), (6, 8)).bytes_read == 4 * 96
    assert cost("argmax", (6, 8), axis=1).bytes_written == 6 * 8
    quantized = cost("quantized_matmul", (4, 8), (8, 6), (4, 1), (1, 6), dtype="int8",
                     out_dtype="float16")  # fmt: skip
    assert quantized.bytes_read == 32 + 48 + 4 * (4 + 6)
    assert quantized.bytes_written == 2 * 24


def test_embedding_reads_only_what_it_gathers():
    few = cost("embedding", (1000, 64), (10,))
    assert few.bytes_read == 10 * 8 + 10 * 64 * 4
    many = cost("embedding", (10, 64), (1000,))
    assert many.bytes_read == 1000 * 8 + 10 * 64 * 4


def test_broadcast_operands_are_read_once():
    a = TensorSpec((8, 3, 4), "float32", (0, 4, 1))
    b = TensorSpec((8, 4, 5), "float32")
    found = op("matmul").cost(cases.problem_of(op("matmul"), {"a": a, "b": b}))
    assert found.bytes_read == 4 * (12 + 160)


def test_half_types_work_in_float32_outside_of_the_matrix_unit():
    for name in NAMES:
        if name == "quantized_matmul":
            continue
        for found in op(name).cases()[:5]:
            if "bfloat16" in cases.dtypes_of(op(name), found):
                work = op(name).cost(posed(name, found, "bfloat16")[0]).work
                for part in work:
                    expected = "bfloat16" if part.unit == "matrix" else "float32"
                    assert part.dtype == expected, name


def test_winograd_needs_fewer_products():
    p = problem("conv2d", (1, 64, 56, 56), (64, 64, 3, 3), padding=1)
    direct, winograd = direct_cost(p), winograd_cost(p)
    full = 2 * 64 * 64 * 56 * 56 * 9
    assert winograd.work[0].flops == full / 2.25
    assert direct.flops < full  # positions on the padding are not counted
    bound = op("conv2d").cost(p)
    assert bound.flops == winograd.work[0].flops
    assert bound.bytes == direct.bytes == winograd.bytes
    strided = problem("conv2d", (1, 64, 56, 56), (64, 64, 3, 3), padding=1, stride=2)
    assert op("conv2d").cost(strided) == direct_cost(strided)


@pytest.mark.parametrize("name", NAMES)
def test_costs_are_sane_and_empty_results_cost_no_work(name):
    for found in op(name).cases():
        for dtype in cases.dtypes_of(op(name), found)[:1]:
            p, _ = posed(name, found, dtype)
            c = op(name).cost(p)
            assert all(w.flops >= 0 for w in c.work)
            assert c.bytes_written == sum(r.nbytes for r in p.results)
            assert c.bytes_read <= sum(t.nbytes for t in p.tensors)
            if not any(t.size for t in p.tensors):
                assert c.flops == 0


GROWING = {
    "matmul": lambda n: ((n, 5), (5, n)), "linear": lambda n: ((n, 5), (5, n), (n,)),
    "softmax": lambda n: ((3, n),), "log_softmax": lambda n: ((n, 3),),
    "layer_norm": lambda n: ((3, n), (n,), (n,)), "rms_norm": lambda n: ((3, n), (n,)),
    "add_rms_norm": lambda n: ((3, n), (3, n), (n,)),
    "attention": lambda n: ((1, 2, n, 4), (1, 2, n, 4), (1, 2, n, 4)),
    "rope": lambda n: ((n, 4), (n, 2), (n, 2)), "gelu": lambda n: ((n,),),
    "swiglu": lambda n: ((n, 2), (n, 2)), "sum": lambda n: ((3, n),), "mean": lambda n: ((3, n),),
    "max": lambda n: ((3, n),), "argmax": lambda n: ((3, n),), "cumsum": lambda n: ((3, n),),
    "transpose": lambda n: ((3, n),), "embedding": lambda n: ((n, 4), (n,)),
    "cross_entropy": lambda n: ((n, n), (n,)),
    "conv2d": lambda n: ((1, 2, n + 2, n + 2), (3, 2, 3, 3)),
    "quantized_matmul": lambda n: ((n, 5), (5, n), (n, 1), (1, n)),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_cost_grows_with_the_problem(name):
    dtype = "int8" if name == "quantized_matmul" else "float32"
    params = {"axis": -1} if name in ("cumsum", "sum", "mean", "max", "argmax") else {}
    costs = [cost(name, *GROWING[name](n), dtype=dtype, **params) for n in range(1, 40)]
    for smaller, larger in itertools.pairwise(costs):
        assert larger.flops >= smaller.flops
        assert larger.bytes > smaller.bytes
    assert costs[-1].flops > costs[0].flops or name in ("transpose", "embedding")
