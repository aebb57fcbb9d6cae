"""The accelerators torch can drive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from portable.backends.torch._arrays import device_id, torch_device
from portable.device import Device, DeviceInfo


def accelerators() -> Iterator[Device]:
    """CUDA or ROCm, XPU and MPS devices that are usable now."""
    if torch.cuda.is_available():
        yield from (_cuda(i) for i in range(torch.cuda.device_count()))
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        yield from (_xpu(i) for i in range(torch.xpu.device_count()))
    if torch.backends.mps.is_available():
        memory = torch.mps.recommended_max_memory()
        yield Device("mps:0", DeviceInfo("Apple GPU", vendor="Apple", memory_size=memory))


def synchronize(key: str) -> None:
    """Wait for all work on a device."""
    device = torch_device(key)
    module: Any = getattr(torch, device.type)
    if device.type == "mps":
        module.synchronize()
    else:
        module.synchronize(device)


def _cuda(index: int) -> Device:
    p = torch.cuda.get_device_properties(index)
    hip = torch.version.hip
    info = DeviceInfo(
        name=p.name,
        vendor="AMD" if hip else "NVIDIA",
        architecture=p.gcnArchName.partition(":")[0] if hip else f"sm_{p.major}{p.minor}",
        units=p.multi_processor_count,
        memory_size=p.total_memory,
        driver=hip or torch.version.cuda or "",
    )
    return Device(device_id(torch.device("cuda", index)), info)


def _xpu(index: int) -> Device:
    p = torch.xpu.get_device_properties(index)
    info = DeviceInfo(
        name=p.name,
        vendor="Intel",
        units=p.max_compute_units,
        memory_size=p.total_memory,
        driver=p.driver_version,
    )
    return Device(f"xpu:{index}", info)
