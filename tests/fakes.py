"""Backends that prove which one ran, or that misbehave on purpose, and a clock."""

from __future__ import annotations

import time

import numpy as np

from portable.backend import BackendBase, Missing
from portable.device import Device, DeviceInfo

CPU = Device("cpu", DeviceInfo("fake", kind="cpu", units=1))


class Fake:
    """An implementation from one function of NumPy arrays."""

    def __init__(self, run, *, refuse=(), configs=({},), **traits):
        self.run, self.refuse, self._configs = run, list(refuse), list(configs)
        self.compiled = self.calls = 0
        for name, value in traits.items():
            setattr(self, name, value)

    def why_not(self, problem, device):
        return self.refuse

    def configs(self, problem, device):
        return self._configs

    def compile(self, problem, device, config):
        self.compiled += 1

        def kernel(*arrays):
            self.calls += 1
            return self.run(problem, *arrays)

        return kernel


class FakeBackend(BackendBase):
    """A backend of given implementations, by op."""

    path = "reference"
    families = ("numpy",)

    def __init__(self, name, ops, *, priority=0, missing=None, devices=(CPU,)):
        super().__init__()
        self.name, self._ops, self.priority = name, ops, priority
        self._missing, self._devices = missing, devices

    def why_missing(self):
        return Missing(*self._missing) if self._missing else None

    def devices(self):
        return self._devices

    def ops(self):
        return sorted(self._ops)

    def implementation(self, op):
        return self._ops.get(op)


class Clock:
    """Nanoseconds that pass only where a test lets them, and by `look` at every look: what else
    runs on the machine changes nothing."""

    def __init__(self, look=0):
        self.now, self.look = 0, look

    def __call__(self):
        self.now += self.look
        return self.now

    def spin(self, seconds):
        self.now += round(seconds * 1e9)


def spin(seconds):
    """Busy for a time on the system's clock."""
    until = time.perf_counter_ns() + round(seconds * 1e9)
    while time.perf_counter_ns() < until:
        pass


def right_matmul(problem, a, b):
    """Correct: float32 accumulation for half types."""
    wide = np.float32 if a.dtype.itemsize == 2 else a.dtype
    with np.errstate(all="ignore"):
        return np.asarray(np.matmul(a.astype(wide), b.astype(wide))).astype(a.dtype)
