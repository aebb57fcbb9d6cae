"""torch: its own kernels (oneDNN, MKL, cuBLAS, cuDNN, MPS ...), with gradients; torch's tensors."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
from collections.abc import Sequence
from typing import ClassVar

from portable.backend import ArrayFamily, BackendBase
from portable.device import Device, DeviceInfo


class TorchBackend(BackendBase):
    """torch on the CPU and on every accelerator it drives."""

    name = "torch"
    path = "vendor library"
    priority = 30
    families: ClassVar[tuple[str, ...]] = ("torch",)
    requires: ClassVar[tuple[str, ...]] = ("torch",)
    distributions: ClassVar[tuple[str, ...]] = ("torch",)
    install = 'pip install "portable-kernels[torch]"'

    @functools.cached_property
    def _families(self) -> tuple[ArrayFamily, ...]:
        from portable.backends.torch._arrays import TorchFamily

        return (TorchFamily(),)

    @functools.cached_property
    def _devices(self) -> tuple[Device, ...]:
        name = platform.processor() or platform.machine()
        host = Device("cpu", DeviceInfo(name, kind="cpu", units=os.cpu_count() or 0))
        if importlib.metadata.version("torch").endswith("+cpu"):
            return (host,)  # no need to import it
        from portable.backends.torch import _devices

        return (host, *_devices.accelerators())

    def devices(self) -> Sequence[Device]:
        """The CPU and the accelerators of this build of torch."""
        return self._devices

    def array_families(self) -> Sequence[ArrayFamily]:
        """torch's."""
        return self._families

    def synchronize(self, device: Device) -> None:
        """Waits for all streams of the device."""
        if device.id != "cpu":
            from portable.backends.torch import _devices

            _devices.synchronize(device.id)


backend = TorchBackend()
