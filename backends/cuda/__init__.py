"""CUDA C++ kernels of our own, compiled at run time through CuPy (NVRTC; hipRTC on ROCm).

Sources are the `.cu` files beside this module; one Python module per op picks the kernel, its
compile-time configuration and its launch. Without a GPU the backend refuses with the driver's own
words, but everything up to the machine code still works: `kernels()` lists what would be built,
`build_cubin()` builds it, `resources()` reads registers, spills and instructions from the result.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portable.backend import ArrayFamily, BackendBase, Missing
from portable.device import Device, DeviceInfo

if TYPE_CHECKING:
    from portable.backends.cuda._build import KernelVariant

INSTALL = "pip install 'portable-kernels[cuda13]'"
_DRIVERS = {
    "linux": ("libcuda.so.1", "libamdhip64.so"),
    "win32": ("nvcuda.dll",),
}


class CudaBackend(BackendBase):
    """CuPy raw kernels on NVIDIA devices, and on AMD devices where CuPy is built for ROCm."""

    name = "cuda"
    path = "vendor language"
    priority = 15
    families = ("cupy",)
    requires = ("cupy",)
    distributions = ("cupy", "cupy-cuda12x", "cupy-cuda13x", "cupy-rocm-7-0")
    install = f"{INSTALL} (driver for CUDA 12: [cuda12]; AMD: [rocm])"

    def why_missing(self) -> Missing | None:
        """CuPy is absent, broken, or sees no device. CuPy is imported only if a driver is there."""
        if (missing := super().why_missing()) is not None:
            return missing
        words = _driver_words()
        if words is None:
            words = _runtime_words()
        if words is None:
            return None
        return Missing(f"cupy is installed but sees no CUDA device: {words}")

    def devices(self) -> Sequence[Device]:
        """Every device the CUDA (or HIP) runtime reports: "cuda:0", ... or "rocm:0", ..."""
        import cupy

        kind = "rocm" if cupy.cuda.runtime.is_hip else "cuda"
        count = int(cupy.cuda.runtime.getDeviceCount())
        return [
            Device(f"{kind}:{index}", _info(cupy.cuda.runtime, index)) for index in range(count)
        ]

    def versions(self) -> Mapping[str, str]:
        """CuPy's distribution, and the driver, runtime and run-time compiler it uses."""
        found = dict(super().versions())
        if importlib.util.find_spec("cupy") is None:
            return found
        import cupy

        runtime = cupy.cuda.runtime
        if "cupy" not in found:
            found["cupy"] = str(cupy.__version__)
        kind = "hip" if runtime.is_hip else "cuda"
        with contextlib.suppress(Exception):
            found["driver"] = _version(runtime.driverGetVersion())
        with contextlib.suppress(Exception):
            found[f"{kind}-runtime"] = _version(runtime.runtimeGetVersion())
        with contextlib.suppress(Exception):
            found["hiprtc" if runtime.is_hip else "nvrtc"] = ".".join(
                map(str, cupy.cuda.nvrtc.getVersion())
            )
        return found

    def array_families(self) -> Sequence[ArrayFamily]:
        """CuPy's arrays."""
        from portable.backends.cuda._arrays import CupyFamily

        return (CupyFamily(),)

    def synchronize(self, device: Device) -> None:
        """Wait for all streams of the device."""
        import cupy

        with cupy.cuda.Device(device_index(device.id)):
            cupy.cuda.runtime.deviceSynchronize()

    @contextlib.contextmanager
    def on_stream(self, device: Device, handle: int) -> Iterator[None]:
        """Make a stream of another library current, so that kernels are launched on it.

        `handle` is the raw `cudaStream_t`; `torch.cuda.current_stream(i).cuda_stream` for torch.
        Memory that CuPy's pool hands out inside is ordered on that stream too.
        """
        import cupy

        index = device_index(device.id)
        with cupy.cuda.Device(index), cupy.cuda.ExternalStream(handle, index):
            yield

    @contextlib.contextmanager
    def on_stream_of(self, family: str, device: Device) -> Iterator[None]:
        """Launch where torch launches when the arrays are torch's; CuPy's stream otherwise."""
        if family != "torch":
            yield
            return
        with self.on_stream(device, self.torch_stream(device)):
            yield

    def torch_stream(self, device: Device) -> int:
        """Raw handle of torch's current stream on the device; 0 (the default) without torch."""
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_available():
            return 0
        return int(torch.cuda.current_stream(device_index(device.id)).cuda_stream)

    # What needs no device: used by the cross-compile report and the tests.

    def kernels(self, arch: str) -> Sequence[KernelVariant]:
        """Every kernel of every op in its default configs for an architecture ("sm_90a")."""
        from portable.backends.cuda._catalogue import kernels

        return kernels(arch)

    def build_cubin(self, source: str, arch: str, macros: Mapping[str, int | str]) -> bytes:
        """Machine code of a `.cu` source for an architecture; raises CompileError."""
        from portable.backends.cuda._build import build_cubin

        return build_cubin(source, arch, macros)

    def resources(self, cubin: bytes) -> Mapping[str, Any]:
        """Registers, spills, shared memory, stack and instructions by kernel name."""
        from portable.backends.cuda._resources import resources

        return resources(cubin)


def device_index(device_id: str) -> int:
    """The runtime's index of "cuda:1" or "rocm:1"."""
    return int(device_id.partition(":")[2] or 0)


def _driver_words() -> str | None:
    """Why no GPU driver library can be loaded, in the loader's words, or None."""
    words = None
    for library in _DRIVERS.get(sys.platform, ()):
        try:
            ctypes.CDLL(library)
        except OSError as error:
            words = words or str(error)
        else:
            return None
    return words or f"no GPU driver is known for {sys.platform}"


def _runtime_words() -> str | None:
    """Why the CUDA runtime offers no device, in its own words, or None."""
    try:
        cupy = importlib.import_module("cupy")
        count = int(cupy.cuda.runtime.getDeviceCount())
    except Exception as error:  # a broken installation must not break the caller
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None if count else "the driver reports 0 devices"


def _version(number: int) -> str:
    """13020 -> "13.2"."""
    return f"{number // 1000}.{number % 1000 // 10}" if number < 10_000_000 else str(number)


def _info(runtime: Any, index: int) -> DeviceInfo:
    """What the runtime says of one device."""
    props = runtime.getDeviceProperties(index)
    hip = bool(runtime.is_hip)
    name = props["name"]
    gcn = props.get("gcnArchName", b"")
    arch = (
        (gcn.decode() if isinstance(gcn, bytes) else str(gcn)).partition(":")[0]
        if hip
        else f"sm_{props['major']}{props['minor']}"
    )
    warp = int(props.get("warpSize", 32))
    block = int(props.get("sharedMemPerBlock", 0))
    return DeviceInfo(
        name=(name.decode() if isinstance(name, bytes) else str(name)).rstrip("\0"),
        vendor="AMD" if hip else "NVIDIA",
        kind="gpu",
        architecture=arch,
        pci_id=_pci_id(props),
        units=int(props.get("multiProcessorCount", 0)),
        clock=1e3 * _attribute(runtime, index, props, "clockRate", 13),  # attribute is in kHz
        memory_size=int(props.get("totalGlobalMem", 0)),
        driver=_version(runtime.driverGetVersion()),
        caches={"l2": int(props["l2CacheSize"])} if props.get("l2CacheSize") else {},
        extra={
            "warp_size": str(warp),
            # builtins.max: importing the op's module `max` puts it in this package's namespace
            "shared_per_block": str(
                builtins.max(block, int(props.get("sharedMemPerBlockOptin", 0)))
            ),
        },
    )


def _attribute(runtime: Any, index: int, props: Mapping[str, Any], name: str, number: int) -> int:
    """A property that newer runtimes only offer as an attribute."""
    if props.get(name):
        return int(props[name])
    try:
        return int(runtime.deviceGetAttribute(number, index))
    except Exception:
        return 0


def _pci_id(props: Mapping[str, Any]) -> str:
    """ "10de:2335" from the operating system's list of PCI devices, or ""."""
    try:
        bus = (int(props["pciDomainID"]), int(props["pciBusID"]), int(props["pciDeviceID"]))
        folder = Path("/sys/bus/pci/devices/{:04x}:{:02x}:{:02x}.0".format(*bus))
        parts = [(folder / part).read_text().strip()[2:] for part in ("vendor", "device")]
    except (KeyError, OSError):
        return ""
    return ":".join(parts).lower()


backend = CudaBackend()
