"""NumPy's array family: keys, layouts, refusals, and results that belong to the caller."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest

import portable
from portable.backends._host import writable
from portable.backends.numpy._arrays import NumpyFamily
from portable.errors import DTypeError, FamilyError

FAMILY = NumpyFamily()


def _matrix(x):
    with warnings.catch_warnings(action="ignore"):  # a deprecation still pending
        return np.asmatrix(x)


def test_equal_keys_mean_equal_specs():
    x = np.zeros((6, 8), np.float32)
    packed = np.zeros(6 * 8 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(6, 8)
    variants = [x, x.T, x[::2], x[:, ::-1], x.astype(np.float64), x.astype(">f4"), x[:, :4],
                np.broadcast_to(x[0], (6, 8)), packed, np.float32(3), np.zeros((), np.float32),
                np.ma.array(x), _matrix(x), x.view(np.int32)]  # fmt: skip
    keys = [FAMILY.key(v) for v in variants]
    assert len(set(keys)) == len(variants)
    assert FAMILY.key(x) == FAMILY.key(np.ones((6, 8), np.float32))


def test_specs_tell_strides_in_elements():
    x = np.zeros((6, 8), ml_dtypes.bfloat16)
    assert str(FAMILY.spec(x)) == "bf16[6x8]"
    assert FAMILY.spec(x).strides is None
    assert FAMILY.spec(x[:, ::-2]).strides == (8, -2)
    assert FAMILY.spec(np.broadcast_to(x[0], (3, 8))).strides == (0, 1)
    assert FAMILY.spec(np.float64(1.0)).shape == ()


@pytest.mark.parametrize(
    ("array", "fix"),
    [
        (np.ma.array([1.0, 2.0], mask=[0, 1]), "numpy.ma.filled"),
        (_matrix(np.eye(2)), "numpy.asarray"),
        (np.zeros(3).view(type("Metres", (np.ndarray,), {})), "units"),
    ],
)
def test_subclasses_with_a_meaning_are_refused(array, fix):
    with pytest.raises(FamilyError, match=fix):
        FAMILY.spec(array)
    with pytest.raises(FamilyError, match=fix):
        portable.softmax(array)


@pytest.mark.parametrize(
    "dtype", ["O", "U3", "S3", "M8[s]", "m8[s]", "f4,i4", np.longdouble], ids=str
)
def test_dtypes_that_are_no_numbers_are_refused(dtype):
    with pytest.raises(DTypeError, match="has dtype"):
        FAMILY.spec(np.zeros(3, dtype))


def test_foreign_byte_order_odd_addresses_and_packed_fields():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    records = np.zeros((3, 4), np.dtype([("tag", "i1"), ("value", "f4")]))
    records["value"] = x
    odd = np.frombuffer(b"\0" + x.tobytes(), np.float32, offset=1).reshape(3, 4)
    for variant in (x.astype(">f4"), records["value"], odd):
        step = FAMILY.normalize(variant)
        fixed = step(variant)
        assert fixed.flags.aligned
        assert fixed.dtype.isnative
        np.testing.assert_array_equal(fixed, x)
        np.testing.assert_allclose(portable.sum(variant, axis=1), x.sum(1))
    assert FAMILY.normalize(x) is None


def test_memory_maps_are_plain_arrays(tmp_path):
    path = tmp_path / "weights.bin"
    np.arange(12, dtype=np.float32).tofile(path)
    mapped = np.memmap(path, np.float32, mode="r", shape=(3, 4))
    assert not mapped.flags.writeable
    result = portable.sum(mapped, axis=0)
    assert type(result) is np.ndarray
    np.testing.assert_allclose(result, [12, 15, 18, 21])


def test_writable_lends_the_same_memory():
    for dtype in (np.float32, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        x = np.ones((3, 5), dtype)
        view = x[::-1, ::2]
        view.flags.writeable = False
        lent = writable(view)
        assert lent.flags.writeable
        assert lent.dtype == dtype
        assert lent.strides == view.strides
        assert lent.ctypes.data == view.ctypes.data
    assert writable(x) is x


@pytest.mark.parametrize("name", ["numpy", "torch", "jax", "opencl"])
def test_results_can_be_written_whatever_backend_made_them(name):
    if not next(b for b in portable.backends() if b.name == name).available:
        pytest.skip(f"{name} is not available")
    x = np.ones((65, 33), np.float32)
    x.flags.writeable = False
    with portable.using(backend=name):
        y = portable.softmax(x)
    y[0] = 7
    assert (x == 1).all()
    assert (y[0] == 7).all()
