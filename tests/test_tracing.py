"""Gradients and traces through the public functions: kept by the arrays' own framework."""

from __future__ import annotations

import numpy as np
import pytest

import portable


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    return pytest.importorskip("jax")


def test_torch_gradients_are_kept(torch):
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    w = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)

    def layer(a, b):
        return portable.softmax(portable.linear(a, b, activation="gelu"))

    assert torch.autograd.gradcheck(layer, (x, w))
    refused = {c.name: c.refused for c in portable.explain("matmul", x, w).refused}
    assert "gradient" in refused["numpy"][0]


def test_torch_without_grad_may_go_anywhere(torch):
    x = torch.randn(4, 4, requires_grad=True)
    with torch.no_grad():
        assert len(portable.explain("matmul", x, x).candidates) > 1
        y = portable.matmul(x, x)
    assert not y.requires_grad
    assert portable.matmul(x, x).requires_grad  # and back again, with the same shapes


def test_a_forced_backend_that_loses_gradients_raises(torch):
    x = torch.randn(3, 3, requires_grad=True)
    with (
        portable.using(backend="numpy"),
        pytest.raises(portable.errors.UnsupportedError, match="gradient"),
    ):
        portable.matmul(x, x)


def test_torch_func_transforms(torch):
    x, y = torch.randn(5, 3, 4), torch.randn(4, 2)
    plain = portable.matmul(x[0], y)
    mapped = torch.func.vmap(lambda a: portable.matmul(a, y))(x)
    torch.testing.assert_close(mapped, x @ y)
    slope = torch.func.grad(lambda a: portable.matmul(a, y).square().sum())(x[0])
    torch.testing.assert_close(slope, 2 * (x[0] @ y) @ y.T)
    torch.testing.assert_close(portable.matmul(x[0], y), plain)  # the plain call is as before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, about its own parts
def test_torch_forward_mode(torch):
    x, t = torch.randn(3, 3), torch.randn(3, 3)
    portable.matmul(x, x)
    _, tangent = torch.func.jvp(lambda a: portable.matmul(a, a), (x,), (t,))
    torch.testing.assert_close(tangent, t @ x + x @ t)


def test_torch_compile_takes_a_call_into_its_graph(torch):
    x, w = torch.randn(4, 8), torch.randn(8, 8)

    def model(a, b):
        return portable.softmax(portable.matmul(a, b)) + 1

    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, w), torch.softmax(x @ w, -1) + 1)
    x.requires_grad_()
    compiled(x, w).sum().backward()
    assert x.grad is not None


def test_jax_transformations(jax):
    jnp = jax.numpy
    x, w = jnp.ones((4, 6)), jnp.full((6, 5), 0.5)
    expected = np.asarray(portable.matmul(x, w))
    np.testing.assert_allclose(np.asarray(jax.jit(portable.matmul)(x, w)), expected)
    slope = jax.grad(lambda a: portable.matmul(a, w).sum())(x)
    np.testing.assert_allclose(np.asarray(slope), np.full((4, 6), 2.5))
    batch = jnp.stack([x, 2 * x])
    mapped = jax.vmap(lambda a: portable.softmax(portable.matmul(a, w)))(batch)
    assert mapped.shape == (2, 4, 5)
    text = str(jax.make_jaxpr(portable.matmul)(x, w))
    assert "dot_general" in text
    with (
        portable.using(backend="numpy"),
        pytest.raises(portable.errors.UnsupportedError, match="traced"),
    ):
        jax.jit(lambda a, b: portable.matmul(a, b))(x, w)  # what was traced before stays


def test_results_for_numpy_callers_are_complete_and_writable(jax):
    a = np.ones((64, 64), np.float32)
    with portable.using(backend="jax"):
        y = portable.matmul(a, a)
        a[...] = 0  # must not reach the result
    np.testing.assert_array_equal(y, np.full((64, 64), 64, np.float32))
    y[0, 0] = 1
