"""Platforms: the members of H, over which performance portability is declared.

A platform is a device by one route: the libraries of the host, OpenCL by one vendor's runtime,
CUDA ... What runs by one route may not run by another, although the chip is the same. A platform
formed by "device" takes every route of its device together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from portable.errors import UnknownNameError
from portable.report.places import UNTRIED, Place
from portable.report.rows import Row

FORMED_BY = ("route", "device")

_OWN = {
    "cpu": ("host", "host libraries"),
    "cuda": ("cuda", "CUDA"),
    "rocm": ("rocm", "ROCm"),
    "tpu": ("tpu", "TPU runtime"),
    "opencl": ("opencl", "OpenCL"),
}
"""Key and name of the route that needs no named runtime, by the kind of device id."""

_NAMES = {"pocl": "PoCL", "intel": "Intel", "opencl": "OpenCL", "triton": "Triton"}


@dataclass(frozen=True, slots=True)
class Platform:
    """A member of H.

    Attributes:
        name: for people, unique in the report.
        place: its device.
        runtime: of the records that belong to it; None: all of the device.
        route: name of the route; "" for a device as a whole.
        key: short name of the route on the command line.
        measured: whether there are records of it.
    """

    name: str
    place: Place
    runtime: str | None = None
    route: str = ""
    key: str = ""
    measured: bool = True

    def takes(self, row: Row) -> bool:
        """Whether a row was measured on it."""
        mine = row.place is self.place
        return mine and (self.runtime is None or row.record.runtime == self.runtime)


def formed(rows: Iterable[Row], places: Sequence[Place], by: str) -> list[Platform]:
    """H of all measured devices, one platform per device or per route.

    Raises:
        UnknownNameError: `by` is not in FORMED_BY.
    """
    if by not in FORMED_BY:
        raise UnknownNameError("way to form platforms", by, FORMED_BY)
    if by == "device":
        return [Platform(place.label, place) for place in places]
    users: dict[tuple[int, str], set[str]] = {}
    for row in rows:
        if row.status not in UNTRIED:
            key = (id(row.place), row.record.runtime)
            users.setdefault(key, set()).add(row.record.backend)
    return [
        _by_route(place, runtime, backends)
        for place in places
        for (at, runtime), backends in sorted(users.items(), key=lambda item: item[0][1])
        if at == id(place)
    ]


def _by_route(place: Place, runtime: str, backends: Iterable[str]) -> Platform:
    if runtime:
        driven = "/".join(_NAMES.get(name, name) for name in sorted(backends))
        key, route = runtime, f"{driven} {_NAMES.get(runtime, runtime)}"
    else:
        kind = place.key[1].partition(":")[0]
        key, route = _OWN.get(kind, ("own", "its own runtime"))
    return Platform(f"{place.label} · {route}", place, runtime, route, key)


def declared(rows: Sequence[Row], places: Sequence[Place], names: Sequence[str]) -> list[Platform]:
    """H as declared: "DEVICE", or "DEVICE/ROUTE", by name in the report or hardware entry.

    A name without records stays a member, so that PP is zero.
    """
    by_route = formed(rows, places, "route")
    known: dict[str, Platform] = {}
    for platform in [*formed(rows, places, "device"), *by_route]:
        for name in _aliases(platform):
            known.setdefault(name.casefold(), platform)
    found = []
    for name in names:
        absent = Platform(name, Place(name, ("", name), name, "", None, 0), measured=False)
        found.append(known.get(name.casefold().strip(), absent))
    return list({platform.name: platform for platform in found}.values())


def _aliases(platform: Platform) -> list[str]:
    devices = [n for n in (platform.place.label, platform.place.hardware) if n]
    if not platform.route:
        return devices
    routes = (platform.key, platform.route)
    return [platform.name, *(f"{device}/{route}" for device in devices for route in routes)]


def names_of(platforms: Iterable[Platform]) -> Mapping[tuple[int, str], str]:
    """Names by (identity of the place, runtime), for rows."""
    return {(id(p.place), p.runtime): p.name for p in platforms if p.runtime is not None}
