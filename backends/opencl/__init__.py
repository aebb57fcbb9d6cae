"""The open-standard path: our own OpenCL kernels for CPUs, GPUs and whatever else has a driver.

Drivers ("ICDs") are found where the loader looks anyway, and also in installed Python packages
(Intel's CPU runtime); see `_runtime`. A setting of `OCL_ICD_VENDORS`, `OCL_ICD_FILENAMES` or
`OPENCL_VENDOR_PATH` made by the user is left as it is. Kernels are tuned and tested on CPU
devices (PoCL, Intel's runtime, Oclgrind); on GPUs they are written to run but were not verified.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from portable.backend import ArrayFamily, BackendBase, Missing
from portable.device import Device

_INSTALL = "pip install 'portable-kernels[opencl-cpu]'"


class OpenCL(BackendBase):
    """OpenCL kernels through pyopencl."""

    name = "opencl"
    path = "open standard"
    priority = 10
    families = ("numpy", "opencl")
    requires = ("pyopencl",)
    distributions = ("pyopencl", "intel-opencl-rt", "pocl-binary-distribution")
    install = _INSTALL

    def why_missing(self) -> Missing | None:
        """No pyopencl, no driver, or a process forked after OpenCL was used."""
        if importlib.util.find_spec("pyopencl") is None:
            return Missing("pyopencl is not installed", self.install)
        from portable.backends.opencl import _runtime

        if _runtime.forked():
            return Missing(_runtime.FORKED)
        if not _runtime.icd_files():
            return Missing("no OpenCL driver (ICD) is installed", self.install)
        return None

    def devices(self) -> Sequence[Device]:
        """Every OpenCL device; CPU devices share the id "cpu" and differ by runtime."""
        from portable.backends.opencl import _runtime

        return _runtime.devices()

    def versions(self) -> Mapping[str, str]:
        """Versions of pyopencl and of each driver."""
        from portable.backends.opencl import _runtime

        return {**super().versions(), **_runtime.driver_versions()}

    def array_families(self) -> Sequence[ArrayFamily]:
        """pyopencl.array.Array."""
        from portable.backends.opencl import _arrays

        return (_arrays.family,)

    @property
    def roofs(self) -> Any:
        """Micro-kernels that measure a device: compute_roof, stream, launch_latency."""
        from portable.backends.opencl import _roofs

        return _roofs

    def synchronize(self, device: Device) -> None:
        """Wait for the queue of this thread on the device."""
        from portable.backends.opencl import _runtime

        _runtime.queue(device).finish()


backend = OpenCL()
