"""toylib's arrays for portable. The library is imported only when an array is made or read."""

from __future__ import annotations

import numpy as np

from portable import dtypes
from portable.op import TensorSpec


class ToyFamily:
    name = "toy"
    types = ("toylib.Array",)

    def key(self, array):
        return "toy", array.shape, array.dtype

    def spec(self, array):
        return TensorSpec(tuple(array.shape), dtypes.canonical(array.dtype.name))

    def device(self, array):
        return "toy:0"

    def constraints(self, array):
        return frozenset()

    def normalize(self, array):
        return None

    def why_copy(self, spec):
        return "the device has memory of its own"

    def to_host(self, array):
        import toylib

        return toylib.to_numpy(array)

    def from_host(self, array, device):
        import toylib

        return toylib.Array(np.array(array, order="C"))

    def from_dlpack(self, array):
        return self.from_host(np.from_dlpack(array), "toy:0")

    def other_stream(self, device):
        import toylib

        return toylib.stream()


FAMILY = ToyFamily()
