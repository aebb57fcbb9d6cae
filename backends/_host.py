"""Host memory that changes hands between array libraries without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


class _Lender:
    """Describes the memory of a read-only array as writable, and keeps the array alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Array) -> None:
        self.owner = owner
        described = dict(owner.__array_interface__)
        described["data"] = (described["data"][0], False)
        self.__array_interface__ = described


def writable(array: Array) -> Array:
    """The same memory as a writable array; the array itself when it is writable already.

    For two uses only: memory that has no other owner any more (a result on its way to the
    caller), and input of a library that wants writable arrays but never writes to its inputs.
    """
    if array.flags.writeable:
        return array
    import numpy as np

    if array.dtype.isbuiltin == 1:
        return np.asarray(_Lender(array))
    # Types of ml_dtypes have no code in the array interface: lend their bytes instead.
    stand_in = array.view(f"u{array.dtype.itemsize}")
    return np.asarray(_Lender(stand_in)).view(array.dtype)
