"""What this machine is, and what drivers' dumps say, as DeviceInfo.

    cpu_info()              this machine's processor
    from_dump(kind, dump)   a recorded dump of a driver; kinds are the keys of `READERS`
    portable.hwdb.live      live readers, for tools; backends bring their own

A dump is a dict with the field names of its driver, so that the dump of a bug report can be used as
it is. No clock or memory figure of a driver becomes a peak: drivers lie about both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from portable.device import DeviceInfo
from portable.hwdb.cpuid import cpu_from_dump, cpu_info

__all__ = ["READERS", "cpu_info", "from_dump"]

Dump = Mapping[str, Any]


def from_dump(kind: str, dump: Dump) -> DeviceInfo:
    """DeviceInfo from the dump of one driver.

    Raises:
        ValueError: unknown kind; the message lists the known ones.
    """
    if kind not in READERS:
        raise ValueError(f"unknown kind of dump {kind!r}; known: {', '.join(sorted(READERS))}")
    return READERS[kind](dump)


def from_torch(dump: Dump) -> DeviceInfo:
    """torch.cuda.get_device_properties, for CUDA and for ROCm (which has gcnArchName)."""
    arch = str(dump.get("gcnArchName", ""))
    rocm = arch.startswith("gfx")
    major, minor = int(dump.get("major", 0)), int(dump.get("minor", 0))
    return DeviceInfo(
        name=_text(dump, "name"),
        vendor="AMD" if rocm else "NVIDIA",
        architecture=arch.split(":")[0] if rocm else f"sm_{major}{minor}" if major else "",
        pci_id=_pci(dump),
        units=int(dump.get("multi_processor_count", 0)),
        memory_size=int(dump.get("total_memory", 0)),
        caches=_caches(l2=dump.get("L2_cache_size")),
        extra=_extra(dump, "uuid", "warp_size", "is_integrated"),
    )


def from_xpu(dump: Dump) -> DeviceInfo:
    """torch.xpu.get_device_properties; gpu_subslice_count counts Xe-cores, EUs are the rest."""
    units = dump.get("gpu_subslice_count") or dump.get("gpu_eu_count") or 0
    return DeviceInfo(
        name=_text(dump, "name"),
        vendor="Intel",
        pci_id=_pci(dump),
        units=int(units),
        memory_size=int(dump.get("total_memory", 0)),
        driver=_text(dump, "driver_version"),
        features=frozenset(k for k in ("has_fp16", "has_fp64") if dump.get(k)),
    )


def from_cupy(dump: Dump) -> DeviceInfo:
    """cupy.cuda.runtime.getDeviceProperties; names may be bytes."""
    arch = _text(dump, "gcnArchName")
    rocm = arch.startswith("gfx")
    major, minor = int(dump.get("major", 0)), int(dump.get("minor", 0))
    return DeviceInfo(
        name=_text(dump, "name"),
        vendor="AMD" if rocm else "NVIDIA",
        architecture=arch.split(":")[0] if rocm else f"sm_{major}{minor}" if major else "",
        pci_id=_pci(dump),
        units=int(dump.get("multiProcessorCount", 0)),
        memory_size=int(dump.get("totalGlobalMem", 0)),
        caches=_caches(l2=dump.get("l2CacheSize")),
    )


def from_nvml(dump: Dump) -> DeviceInfo:
    """NVML: name, pciDeviceId (device << 16 | vendor), memory, cores, the *maximum* SM clock."""
    pci = int(dump.get("pciDeviceId", 0))
    major, minor = dump.get("cudaComputeCapability", (0, 0))
    return DeviceInfo(
        name=_text(dump, "name"),
        vendor="NVIDIA",
        architecture=f"sm_{major}{minor}" if major else "",
        pci_id=f"{pci & 0xFFFF:04x}:{pci >> 16:04x}" if pci else "",
        units=int(dump.get("multiProcessorCount", 0)),
        clock=float(dump.get("maxSmClockMHz", 0)) * 1e6,
        memory_size=int(dump.get("memoryTotal", 0)),
        driver=_text(dump, "driverVersion"),
    )


def from_rocminfo(dump: Dump) -> DeviceInfo:
    """One GPU of rocminfo. Its L2 line counts one die of several and is not taken."""
    name = _text(dump, "Marketing Name")
    chip = str(dump.get("Chip ID", "")).split("(")[0].strip()
    return DeviceInfo(
        name=name,
        vendor="AMD",
        kind="cpu" if dump.get("Device Type") == "CPU" else "gpu",
        architecture=_text(dump, "Name").split(":")[0],
        pci_id=f"1002:{int(chip):04x}" if chip.isdigit() else "",
        units=int(dump.get("Compute Unit", 0)),
        clock=float(dump.get("Max Clock Freq. (MHz)", 0)) * 1e6,
        extra=_extra(dump, "Uuid"),
    )


def from_kfd(dump: Dump) -> DeviceInfo:
    """A GPU node of /sys/class/kfd: gfx_target_version 90402 is gfx942, 90010 is gfx90a."""
    version = int(dump.get("gfx_target_version", 0))
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    per_unit = int(dump.get("simd_per_cu", 0)) or 1
    return DeviceInfo(
        name=_text(dump, "name"),
        vendor="AMD",
        architecture=f"gfx{major}{minor:x}{step:x}" if version else "",
        pci_id=f"{int(dump.get('vendor_id', 0)):04x}:{int(dump.get('device_id', 0)):04x}",
        units=int(dump.get("simd_count", 0)) // per_unit,
        clock=float(dump.get("max_engine_clk_fcompute", 0)) * 1e6,
    )


def from_opencl(dump: Dump) -> DeviceInfo:
    """clGetDeviceInfo, keys without CL_DEVICE_. CPU runtimes count hardware threads as units."""
    cpu = str(dump.get("TYPE", "GPU")).upper() == "CPU"
    # AMD reports the target as NAME and the name as BOARD_NAME_AMD.
    name, board = _text(dump, "NAME"), _text(dump, "BOARD_NAME_AMD")
    gfx = name.split(":")[0] if name.startswith("gfx") else ""
    return DeviceInfo(
        name=board or name,
        vendor=_text(dump, "VENDOR"),
        kind="cpu" if cpu else "gpu",
        architecture=gfx,
        pci_id=_pci(dump),
        units=0 if cpu else int(dump.get("MAX_COMPUTE_UNITS", 0)),
        clock=0.0 if cpu else float(dump.get("MAX_CLOCK_FREQUENCY", 0)) * 1e6,
        memory_size=int(dump.get("GLOBAL_MEM_SIZE", 0)),
        driver=_text(dump, "DRIVER_VERSION"),
        features=frozenset(_text(dump, "EXTENSIONS").split()),
    )


def from_jax(dump: Dump) -> DeviceInfo:
    """jax.Device: platform, device_kind; GPUs also compute_capability and core_count."""
    platform = _text(dump, "platform")
    kinds = {"gpu": "gpu", "cuda": "gpu", "rocm": "gpu", "cpu": "cpu"}
    cc = str(dump.get("compute_capability", ""))
    gpu = kinds.get(platform) == "gpu"
    arch = cc if cc.startswith("gfx") else f"sm_{cc.replace('.', '')}" if gpu and cc else ""
    return DeviceInfo(
        name=_text(dump, "device_kind"),
        vendor={"tpu": "Google", "neuron": "AWS"}.get(platform, ""),
        kind=kinds.get(platform, "accelerator"),
        architecture=arch.split(":")[0],
        units=int(dump.get("core_count", 0)) if gpu else 0,
        memory_size=int(dump.get("bytes_limit", 0)),
        extra=_extra(dump, "platform_version"),
    )


def from_name(dump: Dump) -> DeviceInfo:
    """A runtime that tells no more than a name (HPU, NPU, Neuron): name, perhaps units."""
    return DeviceInfo(
        name=_text(dump, "name"),
        vendor=_text(dump, "vendor"),
        kind=_text(dump, "kind") or "accelerator",
        architecture=_text(dump, "architecture"),
        units=int(dump.get("units", 0)),
        memory_size=int(dump.get("memory_size", 0)),
    )


READERS: dict[str, Callable[[Dump], DeviceInfo]] = {
    "cpu": cpu_from_dump,
    "torch": from_torch,
    "xpu": from_xpu,
    "cupy": from_cupy,
    "nvml": from_nvml,
    "rocminfo": from_rocminfo,
    "kfd": from_kfd,
    "opencl": from_opencl,
    "jax": from_jax,
    "name": from_name,
}


def _text(dump: Dump, key: str) -> str:
    value = dump.get(key, "")
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
    return " ".join(text.replace("\x00", " ").split())


def _pci(dump: Dump) -> str:
    """ "1002:74a1" from a recorded "pci_id"; live readers fill it from sysfs."""
    return _text(dump, "pci_id").lower().replace("0x", "")


def _caches(l2: Any = None) -> dict[str, int]:
    return {"l2": int(l2)} if l2 else {}


def _extra(dump: Dump, *keys: str) -> dict[str, str]:
    return {k: str(dump[k]) for k in keys if k in dump}
