"""Memory that tells what was done to it: guarded copies, poisoned allocations, far offsets."""

from __future__ import annotations

import contextlib
import mmap
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable.dtypes import DTYPES

Array = np.ndarray[Any, np.dtype[Any]]

GUARD = 64
"""Canary bytes before and after; a multiple of every vector width, so alignment stays."""
CANARY = 0xA5
POISON = 0xFF
"""Fills what was allocated and not yet written: NaN in every float type, -1 in integers."""


@dataclass(slots=True)
class Guarded:
    """A view inside a buffer of canaries.

    Attributes:
        array: the view; its gaps (strides) are canaries too.
        buffer: all bytes, canaries included.
        before: the bytes when the view was filled.
    """

    array: Array
    buffer: Array
    before: bytes

    def changed(self) -> bool:
        """Whether an element of the view was changed."""
        return self._original().tobytes() != self.array.tobytes()

    def trespassed(self) -> bool:
        """Whether a byte outside of the view's elements was changed."""
        now = self.buffer.copy()
        _view_like(self.array, self.buffer, now)[...] = self._original()
        return now.tobytes() != self.before

    def refill(self, values: Array) -> None:
        """Other values in the same place."""
        _once(self.array)[...] = _once(values, self.array.strides)
        self.before = self.buffer.tobytes()

    def _original(self) -> Array:
        return _view_like(self.array, self.buffer, np.frombuffer(self.before, np.uint8))


def _once(array: Array, strides: tuple[int, ...] | None = None) -> Array:
    """The first slice along every axis of stride 0: each element of memory once."""
    steps = array.strides if strides is None else strides
    return array[(*(slice(0, 1) if step == 0 else slice(None) for step in steps), ...)]


def _view_like(array: Array, buffer: Array, other: Array) -> Array:
    """The place of `array` inside `buffer`, inside another buffer of the same size."""
    offset = array.__array_interface__["data"][0] - buffer.__array_interface__["data"][0]
    if not array.size:
        return np.empty(array.shape, array.dtype)
    return np.ndarray(array.shape, array.dtype, other, offset, array.strides)


def guarded(array: Array, offset: int = 0, readonly: bool = False) -> Guarded:
    """A copy of an array, with its strides, inside canaries.

    Args:
        array: what to copy.
        offset: bytes by which the copy starts after a 64-byte boundary.
        readonly: whether the view refuses to be written.
    """
    low, high = _extent(array)
    room = -low + high + offset + 2 * GUARD
    raw = np.full(room + GUARD, CANARY, np.uint8)
    skew = -(raw.__array_interface__["data"][0] + GUARD - low) % GUARD
    buffer = raw[skew : skew + room]
    view: Array = np.ndarray(array.shape, array.dtype, buffer, GUARD - low + offset, array.strides)
    if array.size:
        _once(view)[...] = _once(array)
    view.flags.writeable = not readonly
    return Guarded(view, buffer, buffer.tobytes())


def _extent(array: Array) -> tuple[int, int]:
    """Bytes before and after an array's first element that its elements reach."""
    if not array.size:
        return 0, 0
    steps = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + array.itemsize


@dataclass(frozen=True, slots=True)
class Allocation:
    """One array that NumPy was asked for while `watched` was on."""

    buffer: Array
    size: int

    def trespassed(self) -> bool:
        """Whether a canary before or after it was overwritten."""
        before, after = self.buffer[:GUARD], self.buffer[GUARD + self.size :]
        return bool((before != CANARY).any() or (after != CANARY).any())


_patching = threading.RLock()


@contextlib.contextmanager
def watched() -> Iterator[list[Allocation]]:
    """numpy.empty, empty_like, zeros and zeros_like give guarded, poisoned memory inside.

    Kernels that allocate by these names are watched; memory that a library allocates on its own
    is not. Yields the allocations seen.
    """
    seen: list[Allocation] = []

    def allocate(shape: Any, dtype: Any, fill: int) -> Array:
        kind = np.dtype(dtype)
        extents = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        size = int(np.prod(extents, dtype=np.int64)) * kind.itemsize
        buffer = np.full(size + 2 * GUARD, CANARY, np.uint8)
        buffer[GUARD : GUARD + size] = fill
        seen.append(Allocation(buffer, size))
        found: Array = buffer[GUARD : GUARD + size].view(kind).reshape(extents)
        return found

    def fresh(original: Callable[..., Any], fill: int) -> Callable[..., Any]:
        def call(shape: Any, dtype: Any = float, order: str = "C", **others: Any) -> Any:
            if order != "C" or others or np.dtype(dtype).name not in DTYPES:
                return original(shape, dtype, order, **others)
            return allocate(shape, dtype, fill)

        return call

    def alike(original: Callable[..., Any], fill: int) -> Callable[..., Any]:
        def call(like: Any, dtype: Any = None, *args: Any, **others: Any) -> Any:
            kind = np.dtype(getattr(like, "dtype", object) if dtype is None else dtype)
            plain = isinstance(like, np.ndarray) and like.flags.c_contiguous
            if args or others or not plain or kind.name not in DTYPES:
                return original(like, dtype, *args, **others)
            return allocate(like.shape, kind, fill)

        return call

    makers = {
        "empty": fresh(np.empty, POISON), "empty_like": alike(np.empty_like, POISON),
        "zeros": fresh(np.zeros, 0), "zeros_like": alike(np.zeros_like, 0),
    }  # fmt: skip
    with _patching:
        originals = {name: getattr(np, name) for name in makers}
        patched = np.__dict__
        patched.update(makers)
        try:
            yield seen
        finally:
            patched.update(originals)


def looks_poisoned(array: Array) -> bool:
    """Whether an element holds the bytes that unwritten memory was filled with."""
    data = np.ascontiguousarray(array).reshape(-1)
    if not data.size:
        return False
    rows = data.view(np.uint8).reshape(-1, array.itemsize)
    return bool((rows == POISON).all(axis=1).any())


def poison_heap(sizes: list[int]) -> None:
    """Leave poison in memory that the next allocations of these sizes [B] may get."""
    for size in sizes:
        if 0 < size < 1 << 26:
            held = [np.full(size, POISON, np.uint8) for _ in range(4)]
            del held


def far(array: Array, reach: int = 1 << 31) -> Array:
    """The array's values with its last row more than `reach` elements after its first.

    Only the pages that hold elements become real memory.

    Raises:
        OSError: the system does not give so much address space.
    """
    rows, row = array.shape[0], int(np.prod(array.shape[1:], dtype=np.int64))
    step = (reach // (rows - 1) + row + 63) // 64 * 64
    size = ((rows - 1) * step + row) * array.itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    memory = mmap.mmap(-1, size, flags=flags)
    inner = tuple(s * array.itemsize for s in _dense(array.shape[1:]))
    view: Array = np.ndarray(
        array.shape, array.dtype, memory, strides=(step * array.itemsize, *inner)
    )
    view[...] = array
    return view


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    from portable.op import contiguous_strides

    return contiguous_strides(shape)
