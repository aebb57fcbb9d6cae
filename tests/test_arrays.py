"""Arrays of every library, in every layout and dtype, through every op: value, family, device.

Whatever backend is chosen, the value is within the op's error bound of its float64 reference, and
the result is of the caller's family on the caller's device.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import replace

import numpy as np
import pytest

import portable
from portable import cases, check, registry

LAYOUTS = ("contiguous", "transposed", "sliced", "reversed", "broadcast", "zero-size", "read-only")
DTYPES = ("float32", "float16", "bfloat16")
FAMILIES = ("numpy", "torch", "jax", "opencl")
OPS = registry.op_names()


def small_case(op):
    """The first core case with data, at least two axes and no special values."""
    for case in op.cases():
        sizes = [math.prod(o.shape) for o in case.operands.values()]
        plain = all(o.fill in PLAIN or ":" in o.fill for o in case.operands.values())
        first = next(iter(case.operands.values()))
        if case.level == "core" and min(sizes) > 1 and len(first.shape) > 1 and plain:
            return case
    raise AssertionError(f"{op.name} has no ordinary core case")


PLAIN = ("normal", "integers", "positive", "uniform", "cos", "sin", "mask", "index", "full")


def laid_out(case, layout):
    """The case with its float operands in a layout; None where it makes no sense."""
    if layout in ("contiguous", "read-only"):
        return case
    if layout == "zero-size":
        return None
    operands = {
        name: replace(o, layout=layout) if not o.dtype and o.shape else o
        for name, o in case.operands.items()
    }
    return replace(case, operands=operands)


class NoSuchDtype(Exception):
    """The family cannot hold the dtype; its other dtypes are tested."""


def native(family, array):
    """A NumPy array as one of the family, keeping its strides where the library has strides."""
    if family == "numpy":
        return array
    if family == "torch":
        torch = pytest.importorskip("torch")
        if any(s < 0 for s in array.strides):
            pytest.skip("torch tensors have no negative strides")
        return (
            registry.families()["torch"].from_host(array, "cpu")
            if array.flags.writeable
            else (torch.as_tensor(registry.families()["torch"].from_host(array.copy(), "cpu")))
        )
    if family == "jax":
        pytest.importorskip("jax")
        return registry.families()["jax"].from_host(np.ascontiguousarray(array), "cpu")
    return on_opencl(array)


def on_opencl(array):
    pytest.importorskip("pyopencl")
    entry = registry.registered()["opencl"]
    if not entry.usable:
        pytest.skip(f"opencl: {entry.why}")
    if array.dtype.name == "bfloat16":
        raise NoSuchDtype("pyopencl arrays have no bfloat16")
    return registry.families()["opencl"].from_host(np.ascontiguousarray(array), "cpu")


def call(op, case, arrays):
    """The public function on the case's arrays."""
    function = getattr(importlib.import_module(f"portable.ops.{op.name}"), op.name)
    named = dict(zip([n for n in op.operand_names if n in case.operands], arrays, strict=True))
    return function(**named, **case.params)


@pytest.mark.parametrize("op_name", OPS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_family_and_device(op_name, family, layout):
    op = registry.op(op_name)
    if family not in registry.families():
        pytest.skip(f"no {family} arrays here")
    case = laid_out(small_case(op), layout)
    if case is None:
        case = zero_size_case(op)
    for dtype in cases_dtypes(op):
        host = cases.arrays(op, case, dtype, seed=3)
        if layout == "read-only":
            for array in host:
                array.flags.writeable = False
        before = [a.copy() for a in host]
        try:
            given = [native(family, a) for a in host]
        except NoSuchDtype:
            continue
        if family == "jax" and any(str(g.dtype) != str(h.dtype)
                                   for g, h in zip(given, host, strict=True)):  # fmt: skip
            host = [registry.families()["jax"].to_host(g) for g in given]  # int64 became int32
            before = [a.copy() for a in host]
        result = call(op, case, given)
        results = result if isinstance(result, tuple) else (result,)
        own = registry.families()[family]
        assert all(registry.family_of_type(type(r)) is own for r in results), type(results[0])
        assert all(own.device(r) == "cpu" for r in results)
        problem = cases.problem_of(op, host, case)
        found = tuple(np.asarray(own.to_host(r)) for r in results)
        if family == "jax":
            found = tuple(widened(f, spec) for f, spec in zip(found, problem.results, strict=True))
        assert check.check(op, problem, host, found) == [], (dtype, str(problem))
        for mine, old in zip(host, before, strict=True):
            np.testing.assert_array_equal(mine, old, err_msg="an input was changed")


def widened(found, spec):
    """JAX without x64 gives int32 where the contract says int64."""
    return found.astype(np.int64) if (found.dtype, spec.dtype) == (np.int32, "int64") else found


def cases_dtypes(op):
    """The dtypes under test that the op takes; its own first one otherwise (integers, fp8)."""
    tested = [d for d in DTYPES if d in op.dtypes]
    return tested or [op.dtypes[0]]


def zero_size_case(op):
    for case in op.cases():
        if any(math.prod(o.shape) == 0 for o in case.operands.values()):
            return case
    pytest.skip(f"{op.name} has no zero-size case")


def test_a_result_is_new_memory():
    """Results never alias an input: writing to one must not change the other."""
    x = np.ones((4, 4), np.float32)
    y = portable.transpose(x)
    assert not np.shares_memory(x, y)
    y[...] = 7
    assert (x == 1).all()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.ma.masked_array(np.ones((2, 2)), mask=np.eye(2)), "filled"),
        (np.array([[1, "a"]], dtype=object), "object"),
        (np.ones((2, 2), dtype="M8[s]"), "datetime64"),
        (np.array([["a"]]), "dtype"),
        (np.ones((2, 2), dtype=np.complex64), "complex64"),
    ],
)
def test_what_is_no_number_is_refused_in_words(value, words):
    with pytest.raises(TypeError, match=words):
        portable.matmul(value, value)


def test_foreign_byte_order_is_read_right():
    a = np.arange(6, dtype=">f4").reshape(2, 3)
    b = np.arange(12, dtype=">f4").reshape(3, 4)
    np.testing.assert_array_equal(portable.matmul(a, b), (a @ b).astype("=f4"))


def test_more_than_2_31_elements_by_strides():
    """A broadcast view of 3e9 elements is reduced right, without being materialised."""
    x = np.broadcast_to(np.float32(0.5), (3, 1_000_000_000))
    y = portable.max(x[:, ::1_000_000], axis=1)
    np.testing.assert_array_equal(y, np.full(3, 0.5, np.float32))
    with pytest.raises(ValueError, match="matmul"):
        portable.matmul(x, np.ones((3, 2), np.float32))


def test_unaligned_and_packed_arrays_are_read_right():
    raw = np.zeros(4 * 16 + 1, np.uint8)
    odd = np.frombuffer(raw.data, dtype=np.float32, count=16, offset=1).reshape(4, 4)
    odd.flags.writeable = True
    odd[...] = np.arange(16).reshape(4, 4)
    np.testing.assert_array_equal(portable.matmul(odd, odd), odd.copy() @ odd.copy())
    packed = np.zeros(5, dtype=[("tag", "u1"), ("x", "f4")])
    packed["x"] = np.arange(5)
    assert portable.sum(packed["x"]) == 10
