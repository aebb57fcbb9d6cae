"""Finds the entry of a device from what its driver says. Nothing here knows a number.

Order: PCI id, exact runtime string, anchored pattern (longest first). What several parts share (one
string for two bins) decides only together with the unit count. Two entries left means none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from portable.device import DeviceInfo
from portable.hwdb.load import HOW_TO_ADD, Entry, architecture_of, entries

_MIG = re.compile(r"\s+MIG\s+\d+\w*\.\d+gb.*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Match:
    """An entry and the share of it that one runtime device is."""

    key: str
    share: float = 1.0


def match(info: DeviceInfo) -> Match | None:
    """The one entry that fits, or None."""
    found = candidates(info)
    if len(found) != 1:
        return None
    key = found[0]
    return Match(key, _share(entries()[key].get("match", {}), info.name))


def candidates(info: DeviceInfo) -> list[str]:
    """Keys of all entries that fit what the driver says; one is a hit, several are no hit."""
    if info.kind == "cpu":
        from portable.hwdb.cpu import cpu_candidates

        return cpu_candidates(info)
    book = _book()
    by_pci = book.get(f"pci {info.pci_id.lower()}", [])
    by_name = _by_name(info.name)
    # The id is burnt in; the name comes from a list of the driver that may be out of date.
    fitting = [k for k in by_pci if k in by_name] or by_pci or by_name
    return [k for k in fitting if _plausible(k, info)]


def explain(info: DeviceInfo) -> str:
    """Why `find` gives no entry (or which one it gives), in one or two sentences."""
    found = candidates(info)
    if len(found) == 1:
        return f"{info.name!r} is {found[0]}."
    if found:
        return (
            f"{info.name!r} fits several entries ({', '.join(found)}) and the driver says nothing "
            "that tells them apart; none is assumed."
        )
    named = _by_name(info.name) or _book().get(f"pci {info.pci_id.lower()}", [])
    if named:
        needs = "; ".join(f"{k}: {_needs(entries()[k])}" for k in named)
        return (
            f"{info.name!r} is a name that several parts share ({needs}); what was seen fits none."
        )
    return f"no entry for {info.name!r}; no other chip's numbers are used instead. {HOW_TO_ADD}"


def _needs(entry: Entry) -> str:
    low, high = entry.get("match", {}).get("units", (0, 0))
    span = f"{low}" if low == high else f"{low} to {high}"
    units = f"{span} units" if low else "its unit count"
    return f"needs {units} on {', '.join(architecture_of(entry)['targets'])}"


def _plain(name: str) -> str:
    name = _MIG.sub("", " ".join(name.split()))
    # Old drivers and some lists leave the maker out.
    return name.casefold().removeprefix("nvidia ").removeprefix("amd ")


def _by_name(name: str) -> list[str]:
    exact = _book().get(_plain(name), [])
    if exact:
        return exact
    plain = " ".join(name.split())
    return next((keys for rx, keys in _patterns() if rx.fullmatch(plain)), [])


@cache
def _book() -> dict[str, list[str]]:
    """Runtime strings and "pci <id>" to the keys that claim them."""
    book: dict[str, list[str]] = {}
    for key, entry in entries().items():
        match = entry.get("match", {})
        claimed = {_plain(n) for n in (*match.get("names", ()), *match.get("shared_names", ()))}
        for name in claimed:
            book.setdefault(name, []).append(key)
        for pci in (*match.get("pci", ()), *match.get("shared_pci", ())):
            book.setdefault(f"pci {pci}", []).append(key)
    return book


@cache
def _patterns() -> list[tuple[re.Pattern[str], list[str]]]:
    """Anchored patterns, longest first."""
    found: dict[str, list[str]] = {}
    for key, entry in entries().items():
        for pattern in entry.get("match", {}).get("patterns", []):
            found.setdefault(pattern, []).append(key)
    ordered = sorted(found, key=len, reverse=True)
    return [(re.compile(p, re.IGNORECASE), found[p]) for p in ordered]


def _plausible(key: str, info: DeviceInfo) -> bool:
    """Architecture agrees, and where bins share a string the unit count is in this one's range."""
    entry = entries()[key]
    arch = architecture_of(entry)
    target = info.architecture.split(":")[0].lower()  # gfx942:sramecc+:xnack-
    if target.startswith(("sm_", "gfx")) and target not in arch["targets"]:
        return False
    match = entry.get("match", {})
    shared = {_plain(n) for n in match.get("shared_names", ())}
    only_shared = _plain(info.name) in shared or info.pci_id.lower() in match.get("shared_pci", ())
    own = {_plain(n) for n in match.get("names", ())}
    sure = _plain(info.name) in own or info.pci_id.lower() in match.get("pci", ())
    if only_shared and not sure:
        low, high = match["units"]
        counts = [round(info.units * ratio) for ratio in arch.get("runtime_units", [1])]
        return any(low <= count <= high for count in counts)
    return True


def _share(match: Entry, name: str) -> float:
    share = match.get("share", 1.0)
    if isinstance(share, dict):
        by_name = {_plain(k): float(v) for k, v in share.items()}
        return by_name.get(_plain(name), 1.0)
    return float(share)
