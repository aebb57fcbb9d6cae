"""IREE: MLIR text compiled for the CPU, for Vulkan, and (compile only) for ROCm."""

from __future__ import annotations

import ctypes.util
import functools
import os
import platform
from collections.abc import Sequence
from typing import ClassVar

from portable.backend import BackendBase
from portable.device import Device, DeviceInfo


class IreeBackend(BackendBase):
    """One MLIR module per problem, compiled by IREE."""

    name = "iree"
    path = "compiler"
    priority = 1
    families: ClassVar[tuple[str, ...]] = ("numpy",)
    requires: ClassVar[tuple[str, ...]] = ("iree.compiler", "iree.runtime")
    distributions: ClassVar[tuple[str, ...]] = (
        "portable-iree", "iree-base-compiler", "iree-base-runtime",
    )  # fmt: skip
    install = "pip install portable-iree"

    def devices(self) -> Sequence[Device]:
        """The CPU by LLVM, and by Vulkan where a Vulkan driver runs on the CPU."""
        return self._devices

    @functools.cached_property
    def _devices(self) -> tuple[Device, ...]:
        name, units = platform.processor() or platform.machine(), os.cpu_count() or 0
        found = [Device("cpu", DeviceInfo(name, kind="cpu", units=units), "llvm-cpu")]
        if ctypes.util.find_library("vulkan"):
            from portable_iree._runtime import software_vulkan

            if driver := software_vulkan():
                info = DeviceInfo(name, kind="cpu", units=units, driver=driver)
                found.append(Device("cpu", info, "vulkan"))
        return tuple(found)


backend = IreeBackend()
