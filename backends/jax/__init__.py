"""JAX: one jitted XLA computation per problem; JAX's arrays and tracers."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
from collections.abc import Sequence
from typing import ClassVar

from portable.backend import ArrayFamily, BackendBase
from portable.device import Device, DeviceInfo

_PLUGINS = ("jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm60-plugin", "jax-rocm7-plugin",
            "libtpu", "jax-metal", "intel-extension-for-openxla")  # fmt: skip


class JaxBackend(BackendBase):
    """XLA on the CPU and on every accelerator that a JAX plugin brings."""

    name = "jax"
    path = "compiler"
    priority = 20
    families: ClassVar[tuple[str, ...]] = ("jax",)
    requires: ClassVar[tuple[str, ...]] = ("jax", "jaxlib")
    distributions: ClassVar[tuple[str, ...]] = ("jax", "jaxlib", *_PLUGINS)
    install = 'pip install "portable-kernels[jax]"'

    @functools.cached_property
    def _families(self) -> tuple[ArrayFamily, ...]:
        from portable.backends.jax._arrays import JaxFamily

        return (JaxFamily(),)

    @functools.cached_property
    def _devices(self) -> tuple[Device, ...]:
        if not any(name in self.versions() for name in _PLUGINS):
            name = platform.processor() or platform.machine()
            return (Device("cpu", DeviceInfo(name, kind="cpu", units=os.cpu_count() or 0)),)
        from portable.backends.jax._devices import devices

        return tuple(devices())

    def devices(self) -> Sequence[Device]:
        """The CPU, and accelerators where a plugin of JAX is installed."""
        return self._devices

    def versions(self) -> dict[str, str]:
        """jax, jaxlib and the plugins that are installed."""
        return dict(self._versions)

    @functools.cached_property
    def _versions(self) -> dict[str, str]:
        found = {}
        for name in self.distributions:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return found

    def array_families(self) -> Sequence[ArrayFamily]:
        """JAX's."""
        return self._families

    def synchronize(self, device: Device) -> None:
        """Waits until the device has run what was sent to it before."""
        from portable.backends.jax._devices import synchronize

        synchronize(device.id)


backend = JaxBackend()
