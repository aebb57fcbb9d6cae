"""Runs a compiled module on NumPy arrays."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import iree.runtime as rt
import numpy as np

from portable_iree import _build

Array = np.ndarray[Any, np.dtype[Any]]

_DRIVERS = {"llvm-cpu": "local-task", "vulkan": "vulkan"}
_SOFTWARE = ("llvmpipe", "lavapipe", "swiftshader")


@functools.cache
def software_vulkan() -> str:
    """Name of a Vulkan device that is the CPU; "" when there is none."""
    try:
        found = rt.get_driver("vulkan").query_available_devices()
    except Exception:  # whatever a Vulkan loader without a driver answers: there is none
        return ""
    names = [d["name"] for d in found]
    return next((n for n in names if any(s in n.lower() for s in _SOFTWARE)), "")


@functools.cache
def _config(runtime: str) -> rt.Config:
    if runtime != "vulkan":
        return rt.Config(_DRIVERS[runtime])
    driver = rt.get_driver("vulkan")
    wanted = software_vulkan()
    ids = [d["device_id"] for d in driver.query_available_devices() if d["name"] == wanted]
    return rt.Config(device=driver.create_device(ids[0]))


def load(text: str, runtime: str) -> Callable[..., Array]:
    """A function of C-contiguous arrays; one call at a time, since a module has one state."""
    config = _config(runtime)
    context = rt.SystemContext(config=config)
    context.add_vm_module(rt.VmModule.copy_buffer(context.instance, _build.binary(text, runtime)))
    main = context.modules.module["main"]
    take, give = (_upload, _download) if runtime == "vulkan" else (_as_is, _to_host)
    lock = threading.Lock()

    def run(*arrays: Array) -> Array:
        with lock:
            return give(config.device, main(*[take(config.device, a) for a in arrays]))

    return run


def _as_is(device: Any, array: Array) -> Array:
    return array


def _to_host(device: Any, result: Any) -> Array:
    return np.array(result.to_host())


def _upload(device: Any, array: Array) -> Any:
    """Into a buffer of the device: Vulkan takes no host memory that is not aligned to its pages."""
    buffer = device.allocator.allocate_buffer(
        memory_type=rt.MemoryType.DEVICE_LOCAL | rt.MemoryType.HOST_VISIBLE,
        allowed_usage=rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING,
        allocation_size=array.nbytes,
    )
    buffer.map().asarray(array.shape, array.dtype)[...] = array
    kind = rt.array_interop.map_dtype_to_element_type(array.dtype)
    return rt.DeviceArray(device, rt.HalBufferView(buffer, array.shape, kind))


def _download(device: Any, result: Any) -> Array:
    """Through a buffer of the driver's: `to_host` would let it write to memory of NumPy's, which
    Mesa refuses unless it starts at a page."""
    view = result._buffer_view
    source = view.get_buffer()
    staging = device.allocator.allocate_buffer(
        memory_type=rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE,
        allowed_usage=rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED,
        allocation_size=source.byte_length(),
    )
    semaphore = device.create_semaphore(0)
    done = rt.HalFence.create_at(semaphore, 1)
    device.queue_copy(
        source, staging, wait_semaphores=rt.HalFence.create_at(semaphore, 0), signal_semaphores=done
    )
    done.wait()
    return np.array(staging.map().asarray(view.shape, result.dtype))
