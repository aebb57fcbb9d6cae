"""The hardware database: facts of devices as data, found by exact match, never guessed.

    find(info)    DeviceInfo -> DeviceSpec of this very device, or None
    get(name)     DeviceSpec by key or by the name people use ("H200 SXM", "MI300X")
    names()       keys of all entries
    all_specs()   all entries, whole
    entry(key)    the raw entry with the source of every group of numbers
    at_clock(...) the same device with peaks scaled to the clock seen under load

Facts live in `architectures/*.toml` and `devices/*.toml`; `README.md` beside them tells fields and
units. They are read at the first question and kept.
"""

from __future__ import annotations

from portable.device import DeviceInfo, DeviceSpec
from portable.hwdb.load import HOW_TO_ADD, Entry, architectures, entries
from portable.hwdb.match import candidates, explain, match
from portable.hwdb.names import resolve
from portable.hwdb.spec import at_clock, build

__all__ = [
    "HOW_TO_ADD",
    "Entry",
    "all_specs",
    "architectures",
    "at_clock",
    "candidates",
    "entry",
    "explain",
    "find",
    "get",
    "names",
]


def find(info: DeviceInfo) -> DeviceSpec | None:
    """The entry of the device a driver describes, scaled to what the driver sees.

    Exact strings or anchored patterns only, PCI ids before names. A part that shows fewer units
    than its entry (bins, partitions) gets peaks = rate per unit x units x clock and says so in
    `estimated` and `notes`; a driver that shows a share of a chip gets that share. A device
    without an entry gives None: another chip's numbers never stand in (`explain` says why).
    """
    hit = match(info)
    return None if hit is None else build(hit.key, info, share=hit.share)


def get(name: str) -> DeviceSpec:
    """The entry of a key or a usual name, case ignored; the whole product as published.

    Raises:
        UnknownNameError: no entry, or several, have that name; near ones are listed.
    """
    key, part = resolve(name)
    return build(key, part=part)


def names() -> list[str]:
    """Keys of all entries, sorted."""
    return sorted(entries())


def all_specs() -> list[DeviceSpec]:
    """Every entry as published, by key."""
    return [build(key) for key in names()]


def entry(key: str) -> Entry:
    """The raw entry as in its file: every number beside its source, with conflicts and decisions.

    Raises:
        UnknownNameError: no such entry.
    """
    return entries()[resolve(key)[0]]
