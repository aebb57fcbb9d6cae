"""NumPy's arrays: the family of host memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Any

import numpy as np

from portable import dtypes
from portable.backends._host import writable
from portable.errors import DTypeError, FamilyError
from portable.op import TensorSpec

Array = np.ndarray[Any, np.dtype[Any]]

_PLAIN = (np.ndarray, np.memmap)
_PLAIN_KEY = attrgetter("shape", "strides", "dtype", "flags.aligned")
_REFUSED = {
    "MaskedArray": "portable has no masks; pass numpy.ma.filled(x, value), or x.data to ignore it",
    "matrix": "its * and shapes follow other rules; pass numpy.asarray(x)",
    "recarray": "records are no numbers; pass one field, as numpy.asarray(x.field)",
}
_DTYPE_FIXES = {
    "O": "convert it, for example with x.astype(numpy.float32)",
    "V": "pass one field of it, as numpy.ascontiguousarray(x['field'])",
    "M": "convert it, for example with x.astype('int64')",
    "m": "convert it, for example with x.astype('int64')",
    "U": "convert it, for example with x.astype(numpy.float32)",
    "S": "convert it, for example with x.astype(numpy.float32)",
}


class NumpyFamily:
    """`numpy.ndarray`, its memory maps, and NumPy scalars as 0-d arrays."""

    name = "numpy"
    types: tuple[str, ...] = ("numpy.ndarray", "numpy.generic")

    def key(self, array: Array) -> Hashable:
        """Type, shape, strides, dtype, alignment."""
        return type(array), array.shape, array.strides, array.dtype, array.flags.aligned

    shape_and_dtype = staticmethod(attrgetter("shape", "dtype"))

    def key_of(self, kind: type) -> Callable[[Any], Hashable] | None:
        """Of plain arrays the type need not be part of the key; read in C."""
        return _PLAIN_KEY if kind is np.ndarray else None

    def spec(self, array: Array) -> TensorSpec:
        """Shape, dtype and strides.

        Raises:
            FamilyError: masked arrays, matrices and other subclasses with rules of their own.
            DTypeError: objects, strings, dates, records, extended precision.
        """
        _refuse_subclass(array)
        dtype = _dtype_name(array.dtype)
        if array.flags.c_contiguous or not _whole_strides(array):
            return TensorSpec(array.shape, dtype)
        strides = tuple(s // array.itemsize for s in array.strides)
        return TensorSpec(array.shape, dtype, strides)

    def device(self, array: Array) -> str:
        """Host memory."""
        return "cpu"

    def constraints(self, array: Array) -> frozenset[str]:
        """None."""
        return frozenset()

    def normalize(self, array: Any) -> Callable[[Any], Any] | None:
        """Scalars become 0-d arrays; foreign byte order and odd addresses are copied away."""
        if isinstance(array, np.generic):
            return np.asarray
        if not array.dtype.isnative:
            native = array.dtype.newbyteorder("=")
            return lambda x: np.asarray(x).astype(native)
        if not array.flags.aligned or not _whole_strides(array):
            return lambda x: np.array(x, order="C", subok=False)
        return None if type(array) is np.ndarray else np.asarray

    def why_copy(self, spec: TensorSpec) -> str | None:
        """Host arrays are NumPy arrays: never."""
        return None

    def to_host(self, array: Array) -> Array:
        """The array itself."""
        return array

    def from_host(self, array: Array, device: str) -> Array:
        """The array itself, writable: a result that another library gave away is the caller's."""
        return array if array.flags.writeable else writable(array)

    def from_dlpack(self, array: Any) -> Array:
        """A view of another library's host memory."""
        return writable(np.from_dlpack(array))


def _refuse_subclass(array: Any) -> None:
    kind = type(array)
    if kind in _PLAIN or issubclass(kind, np.generic):
        return
    for base in kind.__mro__:
        if base.__name__ in _REFUSED and base.__module__.partition(".")[0] == "numpy":
            raise FamilyError(f"is a numpy {base.__name__}: {_REFUSED[base.__name__]}")
    raise FamilyError(
        f"is a {kind.__module__}.{kind.__qualname__}, a subclass of numpy.ndarray whose meaning "
        "(units, names, masks) would be lost; pass numpy.asarray(x) if the plain numbers are meant"
    )


def _dtype_name(dtype: np.dtype[Any]) -> str:
    if dtype.name in dtypes.DTYPES:
        return dtype.name
    fix = _DTYPE_FIXES.get(dtype.kind, "convert it, for example with x.astype(numpy.float64)")
    raise DTypeError(f"has dtype {dtype}; takes {', '.join(dtypes.DTYPES)}; {fix}")


def _whole_strides(array: Array) -> bool:
    """Whether the strides are whole numbers of elements (a field of packed records has others)."""
    return all(s % array.itemsize == 0 for s in array.strides)
