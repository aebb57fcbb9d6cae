"""A pretended accelerator: arrays of its own, and streams on which work waits until it is needed.

Work is queued on the current stream and done when that stream (or the device) is waited for, so a
kernel that uses another stream reads inputs that are not there yet, as on a GPU.
"""

from __future__ import annotations

import contextlib
import threading

import numpy as np


class Stream:
    def __init__(self):
        self.queue, self.lock = [], threading.RLock()

    def add(self, work):
        with self.lock:
            self.queue.append(work)

    def wait(self):
        with self.lock:
            while self.queue:
                self.queue.pop(0)()


DEFAULT = Stream()
STREAMS = [DEFAULT]
_state = threading.local()


def current():
    return getattr(_state, "stream", DEFAULT)


@contextlib.contextmanager
def stream():
    before, _state.stream = current(), Stream()
    STREAMS.append(_state.stream)
    try:
        yield _state.stream
    finally:
        _state.stream = before


def synchronize():
    for each in STREAMS:
        each.wait()


class Array:
    def __init__(self, data):
        self.data = data
        self.shape, self.dtype = data.shape, data.dtype

    @classmethod
    def launch(cls, shape, dtype, work):
        """A new array that `work(out)` fills when the current stream gets there."""
        made = cls(np.full(shape, 77, dtype))
        current().add(lambda: work(made.data))
        return made

    def __add__(self, other):
        return Array.launch(self.shape, self.dtype, lambda out: np.add(self.data, other.data, out))

    def __setitem__(self, index, other):
        current().add(lambda: self.data.__setitem__(index, other.data))


def asarray(data):
    return Array(np.array(data))


def to_numpy(array):
    current().wait()
    return array.data
