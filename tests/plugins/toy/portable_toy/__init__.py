"""A plugin that brings all there is: device, arrays, an op with configs, priors, hardware."""

from __future__ import annotations

from portable.backend import BackendBase
from portable.device import Device, DeviceInfo


class ToyBackend(BackendBase):
    name = "toy"
    path = "vendor language"
    priority = 90
    families = ("toy",)
    requires = ("toylib",)

    def devices(self):
        return (Device("toy:0", DeviceInfo("Toy Accelerator 1", kind="accelerator", units=4)),)

    def array_families(self):
        from portable_toy._arrays import FAMILY

        return (FAMILY,)

    def synchronize(self, device):
        import toylib

        toylib.synchronize()


backend = ToyBackend()
