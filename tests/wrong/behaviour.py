"""Implementations whose values can be right and whose behaviour is not: memory, time, threads."""

from __future__ import annotations

import threading
import time

import numpy as np

import portable
from tests.fakes import Fake, right_matmul
from tests.wrong.implementations import Wrong


class Unfinished:
    """Returns at once and lets another thread do the work."""

    def __call__(self, problem, a, b):
        y = np.zeros(problem.results[0].shape, a.dtype)

        def work():
            time.sleep(0.02)
            y[...] = right_matmul(problem, a, b)

        threading.Thread(target=work, daemon=True).start()
        return y


class LazyArray(np.ndarray):
    """An array whose work would be done when somebody looks at it."""


def lazy(problem, a, b):
    return np.asarray(right_matmul(problem, a, b)).view(LazyArray)


class SharedScratch:
    """Copies an operand to scratch memory that all calls share."""

    def __init__(self):
        self.scratch = {}

    def __call__(self, problem, a, b):
        mine = self.scratch.setdefault((a.shape, a.dtype), np.empty(a.shape, a.dtype))
        mine[...] = a
        time.sleep(0.0005)  # the other threads' turn
        return right_matmul(problem, mine, b)


class OneBuffer:
    """Hands out the same output memory for every call."""

    def __init__(self):
        self.buffers = {}

    def __call__(self, problem, a, b):
        key = (problem.results[0].shape, a.dtype)
        y = self.buffers.setdefault(key, np.empty(*key))
        y[...] = right_matmul(problem, a, b)
        return y


def one_too_many(problem, a, b):
    """Writes whole 8-byte words: one element too many where the result ends within one.

    Only where the allocator leaves room, so that the fault does no harm to the test itself.
    """
    y = np.empty(problem.results[0].shape, a.dtype)
    y[...] = right_matmul(problem, a, b)
    if y.size and y.nbytes % 16 == 0:
        end = np.lib.stride_tricks.as_strided(y.reshape(-1)[-1:], (2,), (y.itemsize,))
        end[1] = 0
    return y


def overlapping(problem, x):
    """Gives a view of its input instead of a copy."""
    return x.transpose(problem.param("axes"))


class ByAddress:
    """Caches a packed operand by its address, as if weights never changed."""

    def __init__(self):
        self.packed = {}

    def __call__(self, problem, a, b):
        key = (b.__array_interface__["data"][0], b.shape, b.strides, b.dtype)
        if key not in self.packed:
            self.packed[key] = (b, b.copy())  # keeps b alive, so that its address stays its own
        return right_matmul(problem, a, self.packed[key][1])


def patched_timer(problem, a, b):
    """Makes the clock stand still while it is measured."""
    time.perf_counter = lambda: 0.0
    return right_matmul(problem, a, b)


def patched_checker(problem, a, b):
    """Makes every comparison succeed."""
    np.allclose = lambda *args, **kwargs: True
    return right_matmul(problem, a, b)


def offsets_of_31_bits(problem, x):
    """Adds up rows whose offset in elements is kept in 31 bits."""
    if x.ndim < 2:
        return np.asarray(np.sum(x.astype(np.float64), problem.param("axis"),
                                 keepdims=problem.param("keepdims"))).astype(x.dtype)  # fmt: skip
    rows = []
    for i in range(x.shape[0]):
        offset = i * x.strides[0] // x.itemsize
        lost = (offset - (offset & 0x7FFFFFFF)) if offset > 0 else 0
        row = x[i : i + 1]
        rows.append(np.zeros_like(row) if lost else row)  # what lies at the wrong place here
    whole = np.concatenate(rows) if rows else x
    total = np.sum(whole.astype(np.float64), problem.param("axis"),
                   keepdims=problem.param("keepdims"))  # fmt: skip
    return np.asarray(total).astype(x.dtype)


def no_alias(problem, gate, up):
    """Works in place on a copy of the first operand, taking the second to be another array."""
    if gate is up:
        up = np.zeros_like(up)
    wide, other = gate.astype(np.float64), up.astype(np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(wide / (1 + np.exp(-wide)) * other).astype(gate.dtype)


def needs_alignment(problem, x):
    """Loads 16 bytes at a time from the boundary below."""
    address = x.__array_interface__["data"][0]
    wide = x.astype(np.float64)
    if x.size and address % 16:
        wide = np.roll(wide, 1, axis=-1)
    return _softmax(wide, problem.param("axis")).astype(x.dtype)


def needs_writable(problem, x):
    """Asks for its input's memory to write to."""
    if x.size and not x.flags.writeable:
        raise ValueError("buffer source array is read-only")
    return _softmax(x.astype(np.float64), problem.param("axis")).astype(x.dtype)


def _softmax(wide, axis):
    with np.errstate(all="ignore"):
        e = np.exp(wide - wide.max(axis, keepdims=True, initial=-np.inf))
        return e / e.sum(axis, keepdims=True)


def delegates(problem, a, b):
    """Lets another backend do the work and takes the credit."""
    return portable.matmul(a, b)


class BadConfig(Fake):
    """Its second config is wrong."""

    def compile(self, problem, device, config):
        def kernel(a, b):
            y = right_matmul(problem, a, b)
            return y if config["block"] == 16 else np.full_like(y, 7)

        return kernel


class NoPhrases(Fake):
    """Says no by returning False instead of reasons."""

    def why_not(self, problem, device):
        return False


class DoesNotBuild(Fake):
    """Takes everything and builds nothing."""

    def compile(self, problem, device, config):
        raise RuntimeError("ptxas fatal: unsupported target")


CONFIGS = ({"block": 16}, {"block": 32})

WRONG = [
    Wrong("unfinished on another thread", "matmul", Fake(Unfinished()), "late"),
    Wrong("lazy array type", "matmul", Fake(lazy), "contract"),
    Wrong("shared scratch", "matmul", Fake(SharedScratch()), "threads"),
    Wrong("one output buffer", "matmul", Fake(OneBuffer()), "reuse"),
    Wrong("one element too many", "matmul", Fake(one_too_many), "outside"),
    Wrong("a view of its input", "transpose", Fake(overlapping), "aliasing"),
    Wrong("packed weights by address", "matmul", Fake(ByAddress()), "stale"),
    Wrong("patched timer", "matmul", Fake(patched_timer), "timers"),
    Wrong("patched checker", "matmul", Fake(patched_checker), "timers"),
    Wrong("offsets of 31 bits", "sum", Fake(offsets_of_31_bits), "far", "hostile"),
    Wrong("no aliasing", "swiglu", Fake(no_alias), "aliasing"),
    Wrong("needs alignment", "softmax", Fake(needs_alignment), "alignment"),
    Wrong("needs writable input", "softmax", Fake(needs_writable), "read-only"),
    Wrong("delegates", "matmul", Fake(delegates), "delegation"),
    Wrong("bad second config", "matmul", BadConfig(None, configs=CONFIGS), "configs", "full"),
    Wrong("no phrases", "matmul", NoPhrases(None), "contract"),
    Wrong("does not build", "matmul", DoesNotBuild(None), "compile"),
]
