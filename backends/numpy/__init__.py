"""NumPy: the backend that is always there and takes everything; host memory's array family."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Sequence
from typing import ClassVar

from portable.backend import ArrayFamily, BackendBase
from portable.device import Device, DeviceInfo


class NumpyBackend(BackendBase):
    """NumPy and its BLAS on the host's CPU."""

    name = "numpy"
    path = "vendor library"
    priority = 40
    families: ClassVar[tuple[str, ...]] = ("numpy",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    distributions: ClassVar[tuple[str, ...]] = ("numpy", "ml_dtypes")
    install = "pip install portable-kernels"

    @functools.cached_property
    def _families(self) -> tuple[ArrayFamily, ...]:
        from portable.backends.numpy._arrays import NumpyFamily

        return (NumpyFamily(),)

    @functools.cached_property
    def _devices(self) -> tuple[Device, ...]:
        name = platform.processor() or platform.machine()
        return (Device("cpu", DeviceInfo(name, kind="cpu", units=os.cpu_count() or 0)),)

    def devices(self) -> Sequence[Device]:
        """The host's CPU."""
        return self._devices

    def array_families(self) -> Sequence[ArrayFamily]:
        """NumPy's."""
        return self._families


backend = NumpyBackend()
