"""The processor of this machine, without any dependency on Linux.

Core type from the identification numbers (family and model; on Arm implementer and part), because
names are masked in virtual machines ("AMD EPYC") and changed by vendors. macOS and Windows go
through sysctl, py-cpuinfo and psutil where installed.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from portable.device import DeviceInfo

# (family, first model, last model) -> core type, segment. Core types: Linux
# arch/x86/kernel/cpu/amd.c (the Zen ranges in bsp_init_amd); segments: the code names that LLVM
# lists beside the ranges in lib/TargetParser/Host.cpp. A model in neither is not guessed.
_AMD = [
    (0x17, 0x30, 0x3F, "zen2", "server"), (0x17, 0x40, 0x4F, "zen2", "client"),
    (0x17, 0x60, 0x7F, "zen2", "client"), (0x17, 0x90, 0x91, "zen2", "client"),
    (0x17, 0xA0, 0xAF, "zen2", "client"),
    (0x19, 0x00, 0x0F, "zen3", "server"), (0x19, 0x20, 0x2F, "zen3", "client"),
    (0x19, 0x30, 0x3F, "zen3", "server"), (0x19, 0x40, 0x5F, "zen3", "client"),
    (0x19, 0x10, 0x1F, "zen4", "server"), (0x19, 0xA0, 0xAF, "zen4", "server"),
    (0x19, 0x60, 0x7F, "zen4", "client"),
    (0x1A, 0x00, 0x1F, "zen5", "server"), (0x1A, 0x40, 0x4F, "zen5", "client"),
    (0x1A, 0x70, 0x77, "zen5", "halo"), (0x1A, 0x20, 0x2F, "zen5_mobile", "client"),
    (0x1A, 0x60, 0x6F, "zen5_mobile", "client"),
]  # fmt: skip
# Model numbers of family 6: Linux arch/x86/include/asm/intel-family.h (HASWELL_X, BROADWELL_X,
# BROADWELL_D, SKYLAKE_X with Cascade and Cooper Lake, ICELAKE_X and _D, ...).
_INTEL = {
    63: "haswell", 79: "haswell", 86: "haswell", 85: "skylake_server", 106: "icelake_server",
    108: "icelake_server", 143: "sapphirerapids", 207: "emeraldrapids", 173: "graniterapids",
    174: "graniterapids",
}  # fmt: skip
# (implementer, part) of Arm's MIDR register: Linux arch/arm64/include/asm/cputype.h.
_ARM = {
    (0x41, 0xD0C): "neoverse-n1", (0x41, 0xD40): "neoverse-v1", (0x41, 0xD4F): "neoverse-v2",
}  # fmt: skip
_FEATURES = re.compile(
    r"^(sse4_2|avx2?|fma|f16c|avx512\w*|avx_vnni|amx_\w+|asimd\w*|neon|fphp|sve2?|bf16|i8mm|sme2?)$"
)


def core_type(vendor: str, family: int, model: int) -> tuple[str, str]:
    """Core type and segment ("server", "client") of an x86 processor; empty when unknown."""
    if vendor in ("AuthenticAMD", "AMD"):
        for fam, first, last, core, segment in _AMD:
            if fam == family and first <= model <= last:
                return core, segment
    if vendor in ("GenuineIntel", "Intel") and family == 6 and model in _INTEL:
        return _INTEL[model], "server"
    return "", ""


def _core_by_features(flags: set[str]) -> tuple[str, str]:
    """Core type of an Intel processor whose number is unknown, or another's: virtual machines mask
    it (a Xeon with AMX as model 167, Rocket Lake, which has none).

    AMX for bfloat16 but not float16 is of Sapphire and Emerald Rapids, whose cores are of one class
    (LLVM lib/TargetParser/X86TargetParser.cpp; Granite Rapids adds amx_fp16)."""
    if {"amx_bf16", "amx_int8"} <= flags and "amx_fp16" not in flags:
        return "sapphirerapids", "masked"
    return "", ""


def cpu_info() -> DeviceInfo:
    """The processor of this machine, as far as the process may use it.

    `units` are the physical cores in the affinity mask. A CFS quota of a container is reported in
    `extra["cpu_quota"]` but does not lower `units`: it limits time, and a short kernel may use
    every core. `clock` is the maximum that cpufreq states; 0.0 when it states none (the "cpu MHz"
    of a virtual machine is the time-stamp counter's).
    """
    if Path("/proc/cpuinfo").exists():
        return cpu_from_dump(linux_dump())
    return cpu_from_dump(other_dump())


def linux_dump() -> dict[str, Any]:
    """What /proc and /sys say, as a dump that `cpu_from_dump` reads and tests can record."""
    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return {
        "cpuinfo": Path("/proc/cpuinfo").read_text(errors="replace"),
        "affinity": affinity,
        "caches": _linux_caches(affinity[0] if affinity else 0),
        "max_khz": _number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"),
        "mem_total": _mem_total(),
        "cpu_quota": _quota(),
        "board_vendor": _read("/sys/devices/virtual/dmi/id/sys_vendor")
        or _read("/sys/class/dmi/id/board_vendor"),
    }


def cpu_from_dump(dump: Mapping[str, Any]) -> DeviceInfo:
    """DeviceInfo of a processor from `linux_dump`, or from the plain fields of `other_dump`."""
    cpus = _blocks(dump["cpuinfo"]) if "cpuinfo" in dump else [dict(dump)]
    first = cpus[0] if cpus else {}
    vendor, arch, segment = _identify(first, dump)
    flags = _flags(first)
    cores, sockets = _topology(cpus, dump.get("affinity") or [])
    extra = {"segment": segment, "sockets": str(sockets)}
    if "hypervisor" in flags or dump.get("hypervisor"):
        extra["hypervisor"] = "yes"
    for key in ("cpu_quota", "board_vendor"):
        if dump.get(key):
            extra[key] = str(dump[key])
    return DeviceInfo(
        name=str(first.get("model name", dump.get("name", arch or "unknown"))).strip(),
        vendor=vendor,
        kind="cpu",
        architecture=arch,
        units=int(dump.get("cores") or cores),
        clock=float(dump.get("max_khz") or 0) * 1e3,
        memory_size=int(dump.get("mem_total") or 0),
        features=frozenset(f for f in flags if _FEATURES.match(f)),
        caches={k: int(v) for k, v in (dump.get("caches") or {}).items()},
        extra={k: v for k, v in extra.items() if v},
    )


def _identify(first: Mapping[str, Any], dump: Mapping[str, Any]) -> tuple[str, str, str]:
    if "CPU implementer" in first:
        who, part = int(first["CPU implementer"], 0), int(first["CPU part"], 0)
        return "Arm", _ARM.get((who, part), ""), "server" if (who, part) in _ARM else ""
    vendor = str(first.get("vendor_id", dump.get("vendor", "")))
    if str(dump.get("name", "")).startswith("Apple M"):
        return "Apple", "apple-pcore", ""
    family, model = int(first.get("cpu family", 0)), int(first.get("model", 0))
    core, segment = core_type(vendor, family, model)
    if not core and vendor in ("GenuineIntel", "Intel"):
        core, segment = _core_by_features(_flags(first))
    people = {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}
    return people.get(vendor, vendor), core, segment


def _flags(first: Mapping[str, Any]) -> set[str]:
    return set(str(first.get("flags") or first.get("Features") or "").lower().split())


def _blocks(text: str) -> list[dict[str, Any]]:
    """One dict per logical processor of /proc/cpuinfo."""
    found = []
    for block in text.strip().split("\n\n"):
        pairs = (line.split(":", 1) for line in block.splitlines() if ":" in line)
        fields = {k.strip(): v.strip() for k, v in pairs}
        if "processor" in fields:
            found.append(fields)
    return found


def _topology(cpus: list[dict[str, Any]], affinity: Iterable[int]) -> tuple[int, int]:
    """Physical cores and sockets in the affinity mask; cores count once, not per thread."""
    allowed = set(affinity)
    usable = [c for c in cpus if not allowed or int(c.get("processor", -1)) in allowed] or cpus
    cores = {
        (c.get("physical id", "0"), c.get("core id", c.get("processor", i)))
        for i, c in enumerate(usable)
    }
    sockets = {c.get("physical id", "0") for c in usable}
    return max(len(cores), 1), max(len(sockets), 1)


def _linux_caches(cpu: int) -> dict[str, int]:
    """Bytes by level as one core sees them; the shared last level is whole."""
    found: dict[str, int] = {}
    for folder in sorted(Path(f"/sys/devices/system/cpu/cpu{cpu}/cache").glob("index*")):
        kind, level = _read(folder / "type"), _read(folder / "level")
        size = re.fullmatch(r"(\d+)([KMG])", _read(folder / "size"))
        if size and kind != "Instruction":
            scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[size[2]]
            found["l1d" if level == "1" else f"l{level}"] = int(size[1]) * scale
    return found


def _quota() -> str:
    """CPUs by the cgroup's time quota, v2 then v1; empty when there is none."""
    words = _read("/sys/fs/cgroup/cpu.max").split()
    if len(words) == 2 and words[0] != "max":
        return f"{int(words[0]) / int(words[1]):g}"
    quota = _number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    period = _number("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    return f"{quota / period:g}" if quota > 0 and period > 0 else ""


def _mem_total() -> int:
    found = re.search(r"MemTotal:\s+(\d+) kB", _read("/proc/meminfo"))
    return int(found[1]) * 1024 if found else 0


def other_dump() -> dict[str, Any]:
    """macOS and Windows: name and flags from py-cpuinfo, cores and memory from psutil.

    Without them what `platform` tells; fields that cannot be had stay absent.
    """
    dump: dict[str, Any] = {"name": platform.processor() or platform.machine()}
    try:
        import cpuinfo

        told = cpuinfo.get_cpu_info()
        dump["name"] = told.get("brand_raw", dump["name"])
        dump["vendor_id"] = told.get("vendor_id_raw", "")
        dump["cpu family"], dump["model"] = told.get("family", 0), told.get("model", 0)
        dump["flags"] = " ".join(told.get("flags", []))
        dump["caches"] = {
            level: int(told[key])
            for level, key in (("l1d", "l1_data_cache_size"), ("l2", "l2_cache_size"))
            if isinstance(told.get(key), int)
        }
    except ImportError:
        pass
    try:
        import psutil

        dump["cores"] = psutil.cpu_count(logical=False) or os.cpu_count() or 1
        dump["mem_total"] = psutil.virtual_memory().total
    except ImportError:
        dump["cores"] = os.cpu_count() or 1
    if dump["name"].startswith("Apple M"):
        dump["flags"] = "asimd asimdhp"  # sysctl names them differently; every M-series has both
    return dump


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: str) -> float:
    text = _read(path)
    return float(text) if re.fullmatch(r"-?\d+", text) else 0.0
