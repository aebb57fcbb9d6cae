"""The devices of this machine: what they are, what the database says, and their measured roofs."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from portable import registry
from portable.device import Device, DeviceInfo, DeviceSpec
from portable.errors import DTypeError, PortableError, UnknownNameError
from portable.op import Cost

if TYPE_CHECKING:
    from portable.roofline import Roofs, SpeedOfLight

LAUNCH_FLOOR = 1e-6
"""Least time of any call [s] assumed where no launch latency was measured: keeps the model of a
tiny problem from being zero. Calibrating replaces it."""


@dataclass(frozen=True, slots=True)
class PhysicalDevice:
    """One device of this machine, over all backends that can use it.

    Attributes:
        id: "cpu", "cuda:0", ...
        info: what the driver said.
        spec: its entry in the hardware database, or None when it is unknown there.
        routes: (backend name, device of that backend) pairs, the preferred backend first.
    """

    id: str
    info: DeviceInfo
    spec: DeviceSpec | None
    routes: tuple[tuple[str, Device], ...]

    @property
    def roofs(self) -> Roofs | None:
        """Measured roofs, or None until `portable calibrate` ran."""
        return measured_roofs(self.id)

    def speed_of_light(self, cost: Cost) -> SpeedOfLight | None:
        """T_SOL from the datasheet roof; None when the database does not know the device, or has
        no peak for a dtype of the work."""
        from portable import roofline

        if self.spec is None:
            return None
        try:
            return roofline.speed_of_light(cost, self.spec)
        except DTypeError:
            return None

    def roof_time(self, cost: Cost) -> float | None:
        """Least time [s] by the measured roofs of this very device; None before calibration."""
        from portable import roofline

        return roofline.roof_time(cost, self.roofs) if self.roofs is not None else None

    def model_time(self, cost: Cost) -> float:
        """Roofline time [s] for ranking: measured roofs, else datasheet, with a launch floor."""
        from portable import roofline

        if self.roofs is not None:
            return roofline.roof_time(cost, self.roofs)
        sol = self.speed_of_light(cost)
        return (sol.time if sol else 0.0) + LAUNCH_FLOOR


@functools.cache
def devices() -> dict[str, PhysicalDevice]:
    """Every usable device by id."""
    routes: dict[str, list[tuple[str, Device]]] = {}
    for entry in registry.usable():
        assert entry.backend is not None
        for device in entry.backend.devices():
            routes.setdefault(device.id, []).append((entry.name, device))
    return {key: _physical(key, tuple(found)) for key, found in sorted(routes.items())}


def _physical(key: str, routes: tuple[tuple[str, Device], ...]) -> PhysicalDevice:
    from portable import hwdb
    from portable.hwdb import detect

    info = detect.cpu_info() if key == "cpu" else routes[0][1].info
    return PhysicalDevice(key, info, hwdb.find(info), routes)


def device(key: str) -> PhysicalDevice:
    """A usable device by id.

    Raises:
        UnknownNameError: no usable backend drives such a device.
    """
    known = devices()
    if key not in known:
        raise UnknownNameError("device", key, known, "`portable doctor` tells why others are not.")
    return known[key]


@functools.lru_cache(maxsize=64)
def measured_roofs(key: str) -> Roofs | None:
    """Roofs measured by `portable calibrate` on this device, from the record store."""
    from portable import records, roofline

    found = records.default_store().fact("roofs", fingerprint(key))
    return roofline.Roofs.from_json(found) if found else None


@functools.cache
def fingerprint(key: str) -> str:
    """What must agree for a record or roof to be of this very device: name, units, driver."""
    info = device(key).info
    return "|".join(
        (key, info.name, info.architecture, str(info.units), str(info.memory_size >> 30))
    )


@functools.cache
def device_name(key: str) -> str:
    """The name a record of a device of this machine carries; "" when there is no such device."""
    from portable.records import DeviceKey

    found = devices().get(key)
    return DeviceKey.of(found.routes[0][1]).name if found else ""


def model_bandwidth(key: str = "cpu") -> float:
    """Memory bandwidth [B/s] for estimates: measured, else datasheet, else a cautious 10 GB/s."""
    found = device(key)
    if found.roofs is not None:
        return found.roofs.dram
    return found.spec.bandwidth if found.spec else 10e9


def last_level_cache(key: str) -> int:
    """Bytes of the last cache level before memory; 32 MiB where nobody knows."""
    found = device(key)
    known = dict(found.spec.caches) if found.spec else {}
    known.update(found.info.caches)
    return next((known[level] for level in ("l3", "l2") if known.get(level)), 32 << 20)


def forget() -> None:
    """Look again: a backend came or went, roofs were measured."""
    devices.cache_clear()
    measured_roofs.cache_clear()
    fingerprint.cache_clear()
    device_name.cache_clear()


def spec_of(name: str) -> DeviceSpec:
    """An entry of the hardware database by name, or the one of a device here ("cpu", "here").

    Raises:
        UnknownNameError: neither an entry nor a device.
        PortableError: the device here is not in the database.
    """
    from portable import hwdb

    if name in ("here", *devices()):
        found = device("cpu" if name == "here" else name)
        if found.spec is None:
            raise PortableError(
                f"{found.info.name} is not in the hardware database; `portable hw` says how to "
                "add it"
            )
        return found.spec
    return hwdb.get(name)
