"""JAX's array family and implementations: zero copy, tracers, 64-bit types, bounds."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import portable  # noqa: E402
from portable import registry  # noqa: E402
from portable.backends.jax._arrays import JaxFamily  # noqa: E402
from portable.errors import DTypeError, FamilyError  # noqa: E402
from tests.backends.array_backends import failures  # noqa: E402

FAMILY = JaxFamily()


def _aligned(shape, dtype=np.float32):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = np.zeros(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + size].view(dtype).reshape(shape)


@pytest.mark.parametrize("op", registry.op_names())
def test_cases_are_within_bounds(op):
    count, wrong = failures("jax", op, share=0.025)  # a compilation a case
    assert count
    assert not wrong, "\n".join(wrong[:5])


def test_host_memory_is_read_in_place_where_it_is_aligned():
    x = _aligned((64, 32))
    array = FAMILY.from_host(x, "cpu")
    assert array.unsafe_buffer_pointer() == x.ctypes.data
    assert FAMILY.to_host(array).ctypes.data == x.ctypes.data
    assert FAMILY.from_host(x.T, "cpu").tolist() == x.T.tolist()
    assert FAMILY.why_copy(portable.op.TensorSpec((4, 4), "float32", (1, 4)))


def test_inputs_may_change_as_soon_as_the_call_is_back():
    x = _aligned((256, 256))
    x[:] = 1
    with portable.using(backend="jax"):
        y = portable.matmul(x, x)
        x[:] = 0
    assert (y == 256).all()
    y[0] = 3  # the result is the caller's own


def test_identities_do_not_give_the_input_back():
    x = _aligned((16, 16))
    with portable.using(backend="jax"):
        for y in (portable.transpose(x, (0, 1)), portable.sum(x, ()), portable.max(x, ())):
            assert not np.shares_memory(x, y)


def test_sixty_four_bits_stay_whatever_the_setting():
    assert not jax.config.jax_enable_x64
    x = np.random.default_rng(0).random((8, 8))
    with portable.using(backend="jax"):
        y = portable.matmul(x, x)
        assert y.dtype == np.float64
        np.testing.assert_allclose(y, x @ x, rtol=1e-14)
        assert portable.argmax(x).dtype == np.int64
        assert portable.sum(np.full((3,), 2**40)) == 3 * 2**40
    assert not jax.config.jax_enable_x64


def test_jit_grad_and_vmap_go_through():
    x, w = jnp.ones((5, 3, 4)), jnp.arange(16.0).reshape(4, 4) / 16

    def f(a):
        return portable.softmax(portable.matmul(a, w), axis=-1).astype(jnp.float32)

    plain = jax.nn.softmax(x @ w, -1)
    np.testing.assert_allclose(jax.jit(f)(x), plain, rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(f)(x), plain, rtol=1e-5)
    value = jax.jit(jax.grad(lambda a: jnp.square(f(a)).sum()))(x)
    expected = jax.grad(lambda a: jnp.square(jax.nn.softmax(a @ w, -1)).sum())(x)
    np.testing.assert_allclose(value, expected, atol=1e-6)
    assert jax.jit(portable.argmax)(x).dtype == jnp.int32  # no 64-bit types in this trace


def test_attention_has_no_nan_gradient_where_a_row_is_masked():
    q, k = jnp.ones((1, 1, 3, 4)), jnp.ones((1, 1, 2, 4))
    slope = jax.grad(lambda a: portable.attention(a, k, k, causal=True).sum())(q)
    assert not jnp.isnan(slope).any()


def test_tracers_only_go_to_jax():
    def f(x):
        assert FAMILY.constraints(x) == {"traceable"}
        with pytest.raises(FamilyError, match="jax backend"):
            FAMILY.to_host(x)
        with portable.using(backend="numpy"), pytest.raises(portable.errors.UnsupportedError):
            portable.softmax(x)
        return x

    jax.jit(f)(jnp.ones(3))
    assert FAMILY.constraints(jnp.ones(3)) == frozenset()
    assert FAMILY.key(jnp.ones(3)) == FAMILY.key(jnp.zeros(3))
    assert FAMILY.key(jnp.ones(3)) != FAMILY.key(jnp.ones(3, jnp.int32))


def test_keys_of_random_numbers_are_refused():
    with pytest.raises(DTypeError, match="key"):
        portable.softmax(jax.random.key(0))


def test_arrays_over_several_devices_stay_in_jax_and_memory_is_left():
    script = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
from portable.backends.jax._load import jax, jnp
assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import numpy as np, portable
from portable.backends.jax._arrays import JaxFamily
mesh = Mesh(np.array(jax.devices()), ("d",))
x = jax.device_put(jnp.ones((4, 4)), NamedSharding(mesh, PartitionSpec("d")))
assert JaxFamily().constraints(x) == {"traceable"}
y = portable.matmul(x, x)
assert len(y.devices()) == 2 and (np.asarray(y) == 4).all()
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "fine", done.stderr[-3000:]
