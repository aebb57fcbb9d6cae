"""Numba: loops in Python, compiled for the CPU, rows shared out to its cores."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Sequence
from typing import ClassVar

from portable.backend import BackendBase
from portable.device import Device, DeviceInfo


class NumbaBackend(BackendBase):
    """Compiled loops on the host's CPU."""

    name = "numba"
    path = "dsl"
    priority = 5
    families: ClassVar[tuple[str, ...]] = ("numpy",)
    requires: ClassVar[tuple[str, ...]] = ("numba",)
    distributions: ClassVar[tuple[str, ...]] = ("portable-numba", "numba", "llvmlite")
    install = "pip install portable-numba"

    @functools.cached_property
    def _devices(self) -> tuple[Device, ...]:
        name = platform.processor() or platform.machine()
        return (Device("cpu", DeviceInfo(name, kind="cpu", units=os.cpu_count() or 0)),)

    def devices(self) -> Sequence[Device]:
        """The host's CPU."""
        return self._devices


backend = NumbaBackend()
