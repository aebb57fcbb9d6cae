"""Devices as their records describe them, joined with the hardware database and measured roofs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from portable.device import DeviceInfo, DeviceSpec
from portable.errors import RecordError, UnknownNameError
from portable.records import Record
from portable.roofline import Roofs

UNTRIED = ("unsupported", "skipped")
"""Statuses of what was never started: it used neither a library nor a driver."""


@dataclass(slots=True, eq=False)
class Place:
    """One device of one machine, as its records describe it.

    Attributes:
        label: name for people, unique in the report.
        key: (machine, device id).
        name: as the driver says.
        hardware: key in the hardware database; "" when unknown.
        spec: that entry, scaled to the units in use; None when unknown.
        units: compute units in use.
        runtimes: runtimes that drove it, with their driver versions.
        roofs: the latest measured roofs; None when there are none.
    """

    label: str
    key: tuple[str, str]
    name: str
    hardware: str
    spec: DeviceSpec | None
    units: int
    runtimes: dict[str, str] = field(default_factory=dict)
    roofs: Roofs | None = None


def places_of(records: Sequence[Record]) -> list[Place]:
    """Devices in the order seen, with labels that tell them apart."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.machine, record.device.id), []).append(record)
    places = [_place(key, group) for key, group in groups.items()]
    for place in places:
        twins = [p for p in places if p.label == place.label]
        if len(twins) > 1:
            for twin in twins:
                twin.label = f"{twin.label} #{twin.key[0][:4]} {twin.key[1]}"
    return places


def _place(key: tuple[str, str], records: Sequence[Record]) -> Place:
    hardware = next((r.device.hardware for r in records if r.device.hardware), "")
    name = next((r.device.name for r in records if r.device.name), key[1])
    units = max(r.device.units for r in records)
    clock = max(_number(r.details.get("device_clock")) for r in records)
    spec = spec_seen(hardware, name, units, clock)
    label = f"{spec.name}" if spec else name
    if spec and units and spec.kind == "cpu":
        label += f", {units} cores" if units > 1 else ", 1 core"
    runtimes: dict[str, str] = {}
    for record in records:
        if record.status in UNTRIED:
            continue
        candidate = f"{record.backend}[{record.runtime}]" if record.runtime else record.backend
        versions = ", ".join(f"{k} {v}" for k, v in sorted(record.versions.items()))
        runtimes[candidate] = versions or record.device.driver
    with_roofs = [r for r in records if r.roofs]
    latest = max(with_roofs, key=lambda r: r.created, default=None)
    return Place(label, key, name, hardware, spec, units, runtimes, roofs_of(latest))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


@functools.lru_cache(maxsize=256)
def spec_seen(hardware: str, name: str, units: int, clock: float) -> DeviceSpec | None:
    """The hardware entry scaled to the units a record saw; None when there is no such entry."""
    from portable import hwdb
    from portable.hwdb.spec import build

    if not hardware:
        return None
    try:
        key = hwdb.get(hardware).key
    except UnknownNameError:
        return None
    return build(key, DeviceInfo(name=name, units=units, clock=clock)) if units else hwdb.get(key)


def roofs_of(record: Record | None) -> Roofs | None:
    """Measured roofs that a record carries, or None."""
    if record is None or "dram" not in record.roofs:
        return None
    try:
        return Roofs.from_flat({k: v for k, v in record.roofs.items() if v > 0 or k == "launch"})
    except RecordError:
        return None
