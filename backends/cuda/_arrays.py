"""CuPy's arrays: how to look at them and how to hand them on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from portable import dtypes
from portable.errors import DTypeError, FamilyError
from portable.op import TensorSpec

if TYPE_CHECKING:
    import numpy as np


class CupyFamily:
    """Arrays of type `cupy.ndarray`, on CUDA or (where CuPy is built for it) ROCm devices."""

    name: str = "cupy"
    types: tuple[str, ...] = ("cupy.ndarray",)

    def key(self, array: Any) -> Hashable:
        """Type, shape, strides and device: equal keys, equal spec."""
        return array.dtype, array.shape, array.strides, array.device.id

    def spec(self, array: Any) -> TensorSpec:
        """Shape, dtype name and strides in elements."""
        name = array.dtype.name
        if name not in dtypes.DTYPES:
            raise DTypeError(f"CuPy array of dtype {name}; allowed: {', '.join(dtypes.DTYPES)}")
        shape, item = tuple(array.shape), array.dtype.itemsize
        if any(step % item for step in array.strides):
            raise FamilyError(
                f"CuPy array of {name} has strides {array.strides} bytes, no multiple of its"
                f" {item}-byte elements; copy it first: cupy.ascontiguousarray(x)"
            )
        strides = tuple(step // item for step in array.strides)
        spec = TensorSpec(shape, name, strides)
        return TensorSpec(shape, name) if spec.contiguous else spec

    def device(self, array: Any) -> str:
        """ "cuda:0", or "rocm:0" where CuPy is built for ROCm."""
        return f"{_kind()}:{array.device.id}"

    def constraints(self, array: Any) -> frozenset[str]:
        """CuPy has neither gradients nor traces."""
        return frozenset()

    def normalize(self, array: Any) -> Callable[[Any], Any] | None:
        """Nothing to do: CuPy takes native byte order only."""
        return None

    def why_copy(self, spec: TensorSpec) -> str | None:
        """A host array always crosses to the device's memory."""
        return "the data is in host memory and the kernel reads device memory"

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """A copy in host memory; waits for the current stream."""
        host: np.ndarray[Any, Any] = array.get()
        return host

    def from_host(self, array: np.ndarray[Any, Any], device: str) -> Any:
        """A copy in the device's memory, ordered on CuPy's current stream there."""
        import cupy

        with cupy.cuda.Device(int(device.partition(":")[2] or 0)):
            out = cupy.empty(array.shape, array.dtype)
            out.set(array)
        return out

    def from_dlpack(self, array: Any) -> Any:
        """The same memory as CuPy array; DLPack orders it after the producer's stream.

        fp8 has no DLPack code that CuPy reads: it crosses as bytes and is named again here.
        """
        import cupy

        name = str(getattr(array, "dtype", "")).removeprefix("torch.")
        if not name.startswith("float8"):
            return cupy.from_dlpack(_plain(array))
        bytes_view = cupy.from_dlpack(_plain(array).view(_byte_type(array)))
        return bytes_view.view(dtypes.numpy_dtype(name))


def _plain(array: Any) -> Any:
    """A torch tensor without its gradient record, which DLPack refuses; others as they are."""
    detach = getattr(array, "detach", None)
    return detach() if detach is not None else array


def _byte_type(array: Any) -> Any:
    """The producer's own name of an unsigned byte."""
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return torch.uint8
    return "uint8"


def _kind() -> str:
    import cupy

    with contextlib.suppress(AttributeError):
        if cupy.cuda.runtime.is_hip:
            return "rocm"
    return "cuda"
