"""From a problem to a kernel: which launches, with which arrays, on whose queue.

A `Builder` collects the launches of one problem; `Launcher` is what the engine calls. Every array
argument of an OpenCL kernel is a pair (pointer, offset of its first element), so that the same
binary takes NumPy memory by shared virtual memory, buffers over host memory, and pyopencl arrays.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from portable import dtypes
from portable.backends.opencl import _build, _memory, _runtime
from portable.device import Device
from portable.op import Problem, TensorSpec

if TYPE_CHECKING:
    import pyopencl as cl


@dataclass(frozen=True, slots=True)
class Array:
    """An array argument: "in" an operand, "out" a result, "tmp" scratch; by its index."""

    kind: str
    index: int


Argument = Array | np.generic


@dataclass(frozen=True, slots=True)
class Step:
    """One launch."""

    name: str
    files: tuple[str, ...]
    options: tuple[str, ...]
    grid: tuple[int, ...]
    local: tuple[int, ...]
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Scratch:
    """Device memory a call needs for itself; the first `zeroed` bytes start as zeros."""

    nbytes: int
    zeroed: int = 0


class _Bound:
    """Kernel objects of one thread and context: arguments that never change are already set."""

    def __init__(self, context: cl.Context, steps: Sequence[Step]) -> None:
        cl = _runtime.load()
        self.device = context.devices[0]
        self.mode = _runtime.host_mode(self.device)
        self.steps: list[tuple[Any, tuple[int, ...], tuple[int, ...], list[tuple[int, Array]]]] = []
        for step in steps:
            kernel = cl.Kernel(_build.program(context, step.files, step.options), step.name)
            pointers: list[tuple[int, Array]] = []
            position = 0
            for argument in step.arguments:
                if isinstance(argument, Array):
                    pointers.append((position, argument))
                    kernel.set_arg(position + 1, np.int64(0))
                    position += 2
                else:
                    kernel.set_arg(position, argument)
                    position += 1
            self.steps.append((kernel, step.grid, step.local, pointers))


def _low_offset(spec: TensorSpec) -> int:
    """Elements between the lowest address of a strided tensor and its first element."""
    strides = spec.strides or ()
    return sum(-(n - 1) * s for n, s in zip(spec.shape, strides, strict=False) if s < 0)


def span(spec: TensorSpec) -> int:
    """Elements from the lowest address to the highest, both included."""
    if spec.strides is None or spec.size == 0:
        return spec.size
    return 1 + sum((n - 1) * abs(s) for n, s in zip(spec.shape, spec.strides, strict=True))


class Launcher:
    """The compiled kernel of one problem."""

    def __init__(
        self, problem: Problem, device: Device, steps: Sequence[Step], scratch: Sequence[Scratch]
    ) -> None:
        self._problem = problem
        self._device = device
        self._steps = tuple(steps)
        self._scratch = tuple(scratch)
        self._local = threading.local()
        self._outputs = [(r.shape, dtypes.numpy_dtype(r.dtype), r.nbytes) for r in problem.results]
        self._own(_runtime.context(device))  # compile errors show up here

    def _own(self, context: cl.Context) -> _Bound:
        bound = self._local.__dict__.setdefault("bound", {})
        key = context.int_ptr
        if key not in bound:
            bound[key] = (context, _Bound(context, self._steps))
        found: _Bound = bound[key][1]
        return found

    def __call__(self, *arrays: Any) -> Any:
        """Run on NumPy arrays (waits for the result) or on pyopencl arrays (does not wait)."""
        if isinstance(arrays[0], np.ndarray):
            queue = _runtime.queue(self._device)
            bound = self._own(queue.context)
            run = self._shared if bound.mode == "svm" else self._buffers
            results = run(bound, queue, arrays)
        else:
            _runtime.check_process()
            results = self._native(arrays)
        return results[0] if len(results) == 1 else tuple(results)

    def _shared(self, bound: _Bound, queue: Any, arrays: Sequence[Any]) -> list[Any]:
        """Shared virtual memory: kernels get the arrays' own addresses."""
        cl = _runtime.load()
        outputs = [_memory.empty(*output) for output in self._outputs]
        blocks = []
        for scratch in self._scratch:
            block = _memory.pool.take(scratch.nbytes)
            if scratch.zeroed:
                block[: scratch.zeroed] = 0
            blocks.append(block)
        groups = {
            kind: [
                cl.SVM(ctypes.c_char.from_address(array.__array_interface__["data"][0]))
                for array in members
            ]
            for kind, members in (("in", arrays), ("out", outputs), ("tmp", blocks))
        }
        event = None
        for kernel, grid, local, pointers in bound.steps:
            for position, a in pointers:
                kernel.set_arg(position, groups[a.kind][a.index])
            event = cl.enqueue_nd_range_kernel(queue, kernel, grid, local)
        if event is not None:
            event.wait()
        return outputs

    def _buffers(self, bound: _Bound, queue: Any, arrays: Sequence[Any]) -> list[Any]:
        """Buffers over the arrays' memory, or copies where the device has its own."""
        cl = _runtime.load()
        flags = cl.mem_flags
        mapped = bound.mode == "mapped"
        inputs = []
        for array, spec in zip(arrays, self._problem.tensors, strict=True):
            size, low = spec.itemsize, _low_offset(spec)
            start = array.__array_interface__["data"][0] - low * size
            view = (ctypes.c_char * (span(spec) * size)).from_address(start)
            how = flags.USE_HOST_PTR if mapped else flags.COPY_HOST_PTR
            inputs.append((cl.Buffer(queue.context, flags.READ_ONLY | how, hostbuf=view), low))
        outputs = [_memory.empty(*output) for output in self._outputs]
        results: list[tuple[Any, int]] = []
        for array in outputs:
            view = (ctypes.c_char * array.nbytes).from_address(array.__array_interface__["data"][0])
            if mapped:
                buffer = cl.Buffer(
                    queue.context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=view
                )
            else:
                buffer = cl.Buffer(queue.context, flags.READ_WRITE, size=array.nbytes)
            results.append((buffer, 0))
        self._enqueue(bound, queue, inputs, results, None)
        for array, (buffer, _) in zip(outputs, results, strict=True):
            raw = array.reshape(-1).view(np.uint8)
            if mapped:
                flag = cl.map_flags.READ
                view, _ = cl.enqueue_map_buffer(queue, buffer, flag, 0, raw.shape, np.uint8)
                view.base.release(queue)
            else:
                cl.enqueue_copy(queue, raw, buffer)
        queue.flush()  # reading a result has waited for the kernels; unmapping moves nothing
        return outputs

    def _native(self, arrays: Sequence[Any]) -> list[Any]:
        """pyopencl arrays: on the first array's queue, results on it too."""
        cl = _runtime.load()
        first = arrays[0]
        queue = first.queue if first.queue is not None else _runtime.queue(self._device)
        bound = self._own(queue.context)
        inputs = []
        for array, spec in zip(arrays, self._problem.tensors, strict=True):
            inputs.append((array.base_data, array.offset // spec.itemsize))
        outputs = [
            cl.array.empty(queue, shape, dtype, allocator=first.allocator)
            for shape, dtype, _ in self._outputs
        ]
        waits = [e for array in arrays for e in array.events]
        results = [(array.base_data, 0) for array in outputs]
        event = self._enqueue(bound, queue, inputs, results, waits)
        for array in outputs:
            array.add_event(event)
        return outputs

    def _enqueue(
        self, bound: _Bound, queue: Any, inputs: list[Any], outputs: list[Any], waits: Any
    ) -> Any:
        cl = _runtime.load()
        flags = cl.mem_flags.READ_WRITE
        scratch = []
        for wanted in self._scratch:
            buffer = cl.Buffer(queue.context, flags, size=max(wanted.nbytes, 1))
            if wanted.zeroed:
                cl.enqueue_fill_buffer(queue, buffer, np.uint8(0), 0, wanted.zeroed)
            scratch.append((buffer, 0))
        groups = {"in": inputs, "out": outputs, "tmp": scratch}
        event = None
        moved = []  # offsets are zeros between calls; setting one takes microseconds
        try:
            for kernel, grid, local, pointers in bound.steps:
                for position, a in pointers:
                    buffer, offset = groups[a.kind][a.index]
                    kernel.set_arg(position, buffer)
                    if offset:
                        moved.append((kernel, position + 1))
                        kernel.set_arg(position + 1, np.int64(offset))
                event = cl.enqueue_nd_range_kernel(queue, kernel, grid, local, wait_for=waits)
        finally:
            for kernel, position in moved:
                kernel.set_arg(position, np.int64(0))
        return event


def constant(problem: Problem, values: Sequence[Any]) -> Callable[..., Any]:
    """A kernel whose results do not depend on any element (an axis of length zero)."""

    def kernel(*arrays: Any) -> Any:
        results: list[Any] = []
        for spec, value in zip(problem.results, values, strict=True):
            dtype = dtypes.numpy_dtype(spec.dtype)
            host = np.full(spec.shape, value, dtype)
            if isinstance(arrays[0], np.ndarray):
                results.append(host)
            elif spec.size == 0:
                cl = _runtime.load()
                results.append(cl.array.empty(arrays[0].queue, spec.shape, dtype))
            else:
                results.append(_runtime.load().array.to_device(arrays[0].queue, host))
        return results[0] if len(results) == 1 else tuple(results)

    return kernel
