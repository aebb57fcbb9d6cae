"""Live readers: what the drivers of this machine say, each library imported only when asked.

Every function returns the DeviceInfo of all devices one library shows; [] where the library or its
driver is absent. Only the processor was read on its hardware for this release; for all others the
mapping of dumps in `detect` is what tests cover.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from portable.device import DeviceInfo
from portable.hwdb.detect import (
    cpu_info,
    from_cupy,
    from_jax,
    from_kfd,
    from_nvml,
    from_opencl,
    from_torch,
    from_xpu,
)


def cpu() -> list[DeviceInfo]:
    """This machine's processor."""
    return [cpu_info()]


def nvml() -> list[DeviceInfo]:
    """NVIDIA GPUs through the nvidia-ml-py package."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    found = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        dump = {
            "name": pynvml.nvmlDeviceGetName(handle),
            "pciDeviceId": pynvml.nvmlDeviceGetPciInfo(handle).pciDeviceId,
            "memoryTotal": pynvml.nvmlDeviceGetMemoryInfo(handle).total,
            "cudaComputeCapability": pynvml.nvmlDeviceGetCudaComputeCapability(handle),
            # The maximum: the current clock is that of an idle card.
            "maxSmClockMHz": pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "driverVersion": pynvml.nvmlSystemGetDriverVersion(),
        }
        found.append(from_nvml(dump))
    pynvml.nvmlShutdown()
    return found


def kfd() -> list[DeviceInfo]:
    """AMD GPUs from the kernel driver's topology in /sys; needs no library."""
    found = []
    for node in sorted(Path("/sys/class/kfd/kfd/topology/nodes").glob("*")):
        text = _read(node / "properties")
        dump: dict[str, Any] = dict(re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE))
        if int(dump.get("simd_count", 0)):
            found.append(from_kfd(dump | {"name": _read(node / "name")}))
    return found


def torch() -> list[DeviceInfo]:
    """GPUs that torch shows: CUDA, ROCm and Intel XPU."""
    try:
        import torch as lib
    except ImportError:
        return []
    found = []
    for index in range(lib.cuda.device_count() if lib.cuda.is_available() else 0):
        props = lib.cuda.get_device_properties(index)
        found.append(from_torch(_attributes(props) | {"pci_id": _pci_id(props)}))
    xpu: Any = getattr(lib, "xpu", None)
    for index in range(xpu.device_count() if xpu and xpu.is_available() else 0):
        found.append(from_xpu(_attributes(xpu.get_device_properties(index))))
    return found


def cupy() -> list[DeviceInfo]:
    """GPUs that CuPy shows."""
    try:
        import cupy as lib

        count = lib.cuda.runtime.getDeviceCount()
    except Exception:  # no library, no driver, no device: CuPy raises its own errors for the latter
        return []
    return [from_cupy(lib.cuda.runtime.getDeviceProperties(i)) for i in range(count)]


def opencl() -> list[DeviceInfo]:
    """Devices of every OpenCL platform but processors and simulators, which are `cpu`."""
    try:
        import pyopencl as lib

        platforms = lib.get_platforms()
    except Exception:  # no library, or no installable driver
        return []
    names = ("NAME", "VENDOR", "MAX_COMPUTE_UNITS", "MAX_CLOCK_FREQUENCY", "GLOBAL_MEM_SIZE",
             "DRIVER_VERSION", "EXTENSIONS")  # fmt: skip
    found = []
    for platform in platforms:
        for device in platform.get_devices():
            if device.type & lib.device_type.CPU:
                continue
            dump = {name: device.get_info(getattr(lib.device_info, name)) for name in names}
            board = getattr(device, "board_name_amd", "") if "AMD" in platform.vendor else ""
            dump |= {"TYPE": "GPU", "BOARD_NAME_AMD": board}
            found.append(from_opencl(dump))
    return found


def jax() -> list[DeviceInfo]:
    """Accelerators that JAX shows (its processor device is `cpu`)."""
    try:
        import jax as lib

        devices = lib.devices()
    except Exception:  # no library, or a plugin that fails to start
        return []
    fields = ("platform", "device_kind", "compute_capability", "core_count")
    dumps = [{f: getattr(d, f) for f in fields if hasattr(d, f)} for d in devices]
    return [from_jax(dump) for dump in dumps if dump.get("platform") != "cpu"]


READERS: dict[str, Callable[[], list[DeviceInfo]]] = {
    "cpu": cpu, "nvml": nvml, "kfd": kfd, "opencl": opencl, "cupy": cupy, "torch": torch,
    "jax": jax,
}  # fmt: skip
QUICK = ("cpu", "nvml", "kfd", "opencl")


def _attributes(props: Any) -> dict[str, Any]:
    return {name: getattr(props, name) for name in dir(props) if not name.startswith("_")}


def _pci_id(props: Any) -> str:
    """Vendor and device from sysfs, at the bus address that torch tells."""
    address = [getattr(props, f"pci_{part}_id", -1) for part in ("domain", "bus", "device")]
    if -1 in address:
        return ""
    domain, bus, device_number = address
    folder = Path("/sys/bus/pci/devices") / f"{domain:04x}:{bus:02x}:{device_number:02x}.0"
    vendor, device = _read(folder / "vendor"), _read(folder / "device")
    return f"{vendor[2:]}:{device[2:]}" if vendor and device else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
