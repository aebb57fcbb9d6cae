"""Host memory for results and scratch, reused as soon as nobody holds it.

Fresh pages cost a fault and a zeroing each, as much as the work of a bandwidth-bound kernel. So
a block whose arrays are all gone serves the next result of its size. Blocks are aligned to a
cache line and what is kept idle is bounded (`PORTABLE_OPENCL_POOL_MB`, default 256).
"""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from typing import Any

import numpy as np

ALIGNMENT = 64
_POOLED_FROM = 1 << 16
"""Smaller blocks come from NumPy's own cache quickly enough."""

Block = np.ndarray[Any, np.dtype[np.uint8]]


def _aligned(nbytes: int) -> Block:
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


class Pool:
    """Blocks by size; a block is free when the pool holds its only reference."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._blocks: OrderedDict[int, list[tuple[Any, Block]]] = OrderedDict()
        self._lock = threading.Lock()
        self._held = 0

    def take(self, nbytes: int) -> Block:
        """An aligned block of exactly `nbytes`, with arbitrary content."""
        if nbytes < _POOLED_FROM or nbytes > self._limit:
            return _aligned(nbytes)
        with self._lock:
            blocks = self._blocks.get(nbytes)
            if blocks is not None:
                self._blocks.move_to_end(nbytes)
                for owner, block in blocks:
                    # References of an idle owner: the tuple, `block.base`, the loop variable and
                    # the argument of getrefcount. Views made by callers have the owner as base.
                    # One of an idle block: the tuple, the loop variable, the argument.
                    if sys.getrefcount(owner) == 4 and sys.getrefcount(block) == 3:
                        return block[:]
            self._evict(nbytes)
            block = _aligned(nbytes)
            self._blocks.setdefault(nbytes, []).append((block.base, block))
            self._held += nbytes
            return block[:]

    def _evict(self, wanted: int) -> None:
        """Forget the sizes unused for longest; arrays still in use live on without the pool."""
        while self._blocks and self._held + wanted > self._limit:
            size, blocks = self._blocks.popitem(last=False)
            self._held -= size * len(blocks)

    def clear(self) -> None:
        """Forget every block."""
        with self._lock:
            self._blocks.clear()
            self._held = 0


pool = Pool(int(os.environ.get("PORTABLE_OPENCL_POOL_MB", "256")) << 20)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int) -> np.ndarray[Any, Any]:
    """A fresh C-contiguous array, aligned to a cache line, with arbitrary content."""
    if nbytes == 0:
        return np.empty(shape, dtype)
    return pool.take(nbytes).view(dtype).reshape(shape)
