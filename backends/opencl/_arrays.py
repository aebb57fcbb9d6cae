"""The "opencl" array family: pyopencl.array.Array."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from portable import dtypes
from portable.backends.opencl import _runtime
from portable.errors import DTypeError, FamilyError
from portable.op import TensorSpec


class OpenCLArrays:
    """Arrays that live on an OpenCL device; for CPU devices that is host memory."""

    name = "opencl"
    types: tuple[str, ...] = ("pyopencl.Array",)

    def key(self, array: Any) -> Hashable:
        """Shape, dtype, strides and context."""
        return array.shape, array.dtype, array.strides, array.context.int_ptr

    def spec(self, array: Any) -> TensorSpec:
        """Shape, dtype and strides in elements."""
        name = array.dtype.name
        if name not in dtypes.DTYPES:
            raise DTypeError(f"pyopencl array of dtype {name}; known: {', '.join(dtypes.DTYPES)}")
        size = array.dtype.itemsize
        if array.offset % size or any(s % size for s in array.strides):
            raise FamilyError("a pyopencl array whose elements are not aligned to their size")
        spec = TensorSpec(tuple(map(int, array.shape)), name)
        strides = tuple(int(s) // size for s in array.strides)
        found = TensorSpec(spec.shape, name, strides)
        return spec if found.contiguous else found

    def device(self, array: Any) -> str:
        """Id of the device of the array's context."""
        wanted = array.context.devices[0]
        for ours in _runtime.devices():
            if _runtime.native(ours) == wanted:
                return ours.id
        raise FamilyError(f"a pyopencl array on {wanted.name}, which `portable` does not list")

    def constraints(self, array: Any) -> frozenset[str]:
        """None."""
        return frozenset()

    def normalize(self, array: Any) -> Callable[[Any], Any] | None:
        """Nothing to do: subclasses are taken as they are."""
        return None

    def why_copy(self, spec: TensorSpec) -> str | None:
        """A buffer needs a contiguous array to start from."""
        return None if spec.contiguous else f"layout is {spec.layout} (a buffer is contiguous)"

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """Maps the memory of a CPU device without a copy; copies from others."""
        cl = _runtime.load()
        queue = array.queue or _runtime.queue(_by_context(array.context))
        if array.size == 0 or _runtime.host_mode(queue.device) == "copied":
            return np.asarray(array.with_queue(queue).get())
        for event in array.events:
            event.wait()
        size = array.dtype.itemsize
        low = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True) if s < 0)
        span = size + sum((n - 1) * abs(s) for n, s in zip(array.shape, array.strides, strict=True))
        flags = cl.map_flags.READ | cl.map_flags.WRITE
        start = array.offset + low
        raw, _ = cl.enqueue_map_buffer(
            queue, array.base_data, flags, start, (span,), np.uint8, is_blocking=True
        )
        # The view keeps the mapping (and with it the buffer) alive; it is undone when it dies.
        return np.ndarray(array.shape, array.dtype, raw, -low, array.strides)

    def from_host(self, array: np.ndarray[Any, Any], device: str) -> Any:
        """A buffer over the array's memory on CPU devices (writeable arrays), else a copy."""
        cl = _runtime.load()
        ours = next((d for d in _runtime.devices() if d.id == device), None)
        if ours is None:
            raise FamilyError(f"no OpenCL device {device!r} here")
        queue = _runtime.queue(ours)
        dense = np.ascontiguousarray(array) if array.ndim else array
        mode = _runtime.host_mode(queue.device)
        if mode == "copied" or array.size == 0 or not dense.flags.writeable:
            return cl.array.to_device(queue, dense)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        raw = dense.reshape(-1).view(np.uint8)
        buffer = cl.Buffer(queue.context, flags, hostbuf=raw)
        result = cl.array.Array(queue, dense.shape, dense.dtype, data=buffer)
        result.portable_owner = dense  # the buffer does not own the memory
        return result

    def from_dlpack(self, array: Any) -> Any:
        """By way of NumPy, which shares memory with every CPU array that has DLPack."""
        return self.from_host(np.from_dlpack(array), "cpu")


def _by_context(context: Any) -> Any:
    for ours in _runtime.devices():
        if _runtime.native(ours) == context.devices[0]:
            return ours
    raise FamilyError("a pyopencl array of an unknown device")


family = OpenCLArrays()
