"""Devices of JAX under the ids of `portable`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from portable.backends.jax._load import jax, jnp
from portable.device import Device, DeviceInfo

_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
_VENDORS = {"cuda": "NVIDIA", "rocm": "AMD", "tpu": "Google"}


def devices() -> Iterator[Device]:
    """Every device of this process, over all platforms of JAX."""
    for platform in _PLATFORMS:
        for device in _of(platform):
            yield Device(device_id(device), _info(device, platform))
            if platform == "cpu":
                break  # forced host device counts split one CPU: it is one device here


def device_id(device: Any) -> str:
    """ "cpu", "cuda:0", "rocm:0", "tpu:0"."""
    if device.platform == "cpu":
        return "cpu"
    index = getattr(device, "local_hardware_id", None)
    return f"{_kind(device)}:{device.id if index is None else index}"


@functools.cache
def jax_device(key: str) -> Any:
    """JAX's device of an id."""
    for device in _of(key.partition(":")[0]):
        if device_id(device) == key:
            return device
    raise ValueError(f"jax has no device {key!r}; it has {[device_id(d) for d in jax.devices()]}")


def synchronize(key: str) -> None:
    """A device runs its work in order: wait for one more tiny piece."""
    jax.device_put(jnp.zeros(()), jax_device(key)).block_until_ready()


def _of(platform: str) -> list[Any]:
    try:
        return list(jax.local_devices(backend=platform))
    except RuntimeError:
        return []


def _kind(device: Any) -> str:
    if device.platform in ("gpu", "cuda", "rocm"):
        return "rocm" if "rocm" in device.client.platform_version.lower() else "cuda"
    return str(device.platform)


def _info(device: Any, platform: str) -> DeviceInfo:
    statistics = device.memory_stats() if platform != "cpu" else None
    return DeviceInfo(
        name=device.device_kind,
        vendor=_VENDORS.get(platform, ""),
        kind={"cpu": "cpu", "tpu": "accelerator"}.get(platform, "gpu"),
        memory_size=(statistics or {}).get("bytes_limit", 0),
        driver=device.client.platform_version.splitlines()[0],
    )
