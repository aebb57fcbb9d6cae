"""Triton: one Python kernel source, compiled for NVIDIA and AMD GPUs.

Kernels take and return torch tensors and run on torch's current stream. Without a GPU they run
only through Triton's interpreter, in tests: with `TRITON_INTERPRET=1` (read by Triton when a
kernel is decorated) and `PORTABLE_TRITON_INTERPRETER=1` the backend offers the device "cpu" with
the runtime "interpreter". Without a GPU they can still be cross-compiled: see `_crosscompile`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import ClassVar

from portable.backend import BackendBase, Missing
from portable.device import Device, DeviceInfo

INSTALL = 'pip install "portable-kernels[triton]"'
NO_TARGET = (
    "triton has no target here: needs a CUDA or ROCm device; on a CPU it runs only through its "
    "interpreter (TRITON_INTERPRET=1), in tests"
)
DRIVER_NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dxg")
"""Device files of the NVIDIA, AMD and WSL drivers: where none is, no GPU can be driven."""
INTERPRETER = "interpreter"
"""Runtime of the device that exists in tests only."""


def interpreting() -> bool:
    """Whether both variables ask for the interpreter: a stray one alone changes nothing."""
    wanted = ("TRITON_INTERPRET", "PORTABLE_TRITON_INTERPRETER")
    return all(os.environ.get(name) == "1" for name in wanted)


class TritonBackend(BackendBase):
    """Our Triton kernels on whatever GPU torch sees."""

    name = "triton"
    path = "dsl"
    priority = 12
    families: ClassVar[tuple[str, ...]] = ("torch",)
    requires: ClassVar[tuple[str, ...]] = ("triton", "torch")
    distributions: ClassVar[tuple[str, ...]] = ("triton", "torch")
    install = INSTALL

    def why_missing(self) -> Missing | None:
        """Not installed, or no GPU that torch can drive."""
        if not sys.platform.startswith("linux"):
            return Missing(f"triton has no build for {sys.platform} (linux only)")
        missing = super().why_missing()
        if missing or interpreting():
            return missing
        if not any(map(os.path.exists, DRIVER_NODES)):
            return Missing(NO_TARGET)  # torch need not be imported to know
        import torch

        return None if torch.cuda.is_available() else Missing(NO_TARGET)

    def devices(self) -> Sequence[Device]:
        """GPUs that torch drives, or the interpreter in tests."""
        if interpreting():
            info = DeviceInfo("Triton interpreter", kind="cpu", units=1)
            return (Device("cpu", info, INTERPRETER),)
        import torch

        return [_device(index) for index in range(torch.cuda.device_count())]

    def synchronize(self, device: Device) -> None:
        """Waits for all streams of the device."""
        if device.runtime == INTERPRETER:
            return
        import torch

        torch.cuda.synchronize(int(device.id.split(":")[1]))


def _device(index: int) -> Device:
    import torch

    p = torch.cuda.get_device_properties(index)
    hip = getattr(torch.version, "hip", None)
    arch = p.gcnArchName.split(":")[0] if hip else f"sm_{p.major}{p.minor}"
    info = DeviceInfo(
        name=p.name,
        vendor="AMD" if hip else "NVIDIA",
        kind="gpu",
        architecture=arch,
        units=p.multi_processor_count,
        memory_size=p.total_memory,
        driver=hip or torch.version.cuda or "",
    )
    return Device(f"{'rocm' if hip else 'cuda'}:{index}", info)


backend = TritonBackend()
