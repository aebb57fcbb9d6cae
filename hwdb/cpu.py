"""Processors: which entry a machine gets, and peaks = cores x FLOP per clock x clock.

Cores are physical ones (hardware threads share the FMA pipes). The clock is the highest one the
part can reach: published boost of the named model; else the higher of the family's highest boost
and what the system reports as its maximum. So a time computed from it is a lower bound even on a
virtual machine that hides the model; `estimated` and the first note say what was assumed. The clock
that /proc/cpuinfo shows in a virtual machine is the time-stamp counter's and is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from portable.device import DeviceInfo, DeviceSpec
from portable.hwdb.load import Entry, architecture_of, entries
from portable.hwdb.spec import expanded, notes_of, sources_of

_NOT_RATES = {"unit", "needs"}


def cpu_candidates(info: DeviceInfo) -> list[str]:
    """Entries of the core type (and segment, and board maker) that detection found."""
    cpus = {k: e for k, e in entries().items() if architecture_of(e)["kind"] == "cpu"}
    if not info.architecture:
        return [k for k, e in cpus.items() if part_of(e, info.name)]
    found = []
    for key, entry in cpus.items():
        arch = architecture_of(entry)
        if info.architecture not in arch["targets"]:
            continue
        segment = info.extra.get("segment", "")
        if segment and entry.get("segment", segment) != segment:
            continue
        maker = entry.get("board_vendor", "")
        if maker and maker.casefold() not in info.extra.get("board_vendor", "").casefold():
            continue
        found.append(key)
    return found


def part_of(entry: Entry, name: str) -> Entry | None:
    """The processor model of an entry that a name spells out, if any; whole words only."""
    for part in sorted(entry.get("parts", []), key=lambda p: -len(p["name"])):
        words = re.escape(part["name"])
        plain = re.sub(r"\((R|TM)\)", "", name)
        plain = " ".join(plain.split())
        if re.search(rf"(?<![\w+-]){words}(?![\w+-])", plain, re.IGNORECASE):
            return dict(part)
    return None


def core_rates(arch: Entry, features: Iterable[str] | None = None) -> dict[str, float]:
    """FLOP per clock of one core by "dtype/unit"; the best of the rows the features allow."""
    have = None if features is None else set(features)
    best: dict[str, float] = {}
    for row in arch["core_rates"]:
        if have is not None and not have.issuperset(row["needs"]):
            continue
        for dtype, rate in row.items():
            if dtype not in _NOT_RATES:
                kind = f"{dtype}/{row['unit']}"
                best[kind] = max(best.get(kind, 0.0), float(rate))
    return best


def build_cpu(
    key: str, entry: Entry, arch: Entry, info: DeviceInfo | None, part_name: str = ""
) -> DeviceSpec:
    """Spec of a processor: of this machine (`info`), of a named model, or of one core."""
    part = part_of(entry, info.name if info else part_name) or {}
    rates = core_rates(arch, info.features if info and info.features else None)
    units = (info.units if info else 0) or int(part.get("cores", 1))
    clock = _clock(entry, part, info)
    sockets = int((info.extra.get("sockets") if info else None) or 1)
    memory = entry.get("memory", {})
    bandwidth = float(part.get("bandwidth", memory.get("bandwidth", 0.0))) * sockets
    estimated = {"peaks"}
    if not part:
        estimated |= {"clock", "bandwidth"}
    if info and "hypervisor" in info.extra:
        estimated.add("bandwidth")
    return DeviceSpec(
        key=key,
        name=entry["name"] + (f", {part['name']}" if part else "" if info else ", one core"),
        vendor=entry.get("vendor") or arch["vendor"],
        kind="cpu",
        architecture=arch["targets"][0],
        peaks=dict(expanded({kind: rate * units * clock for kind, rate in rates.items()})),
        bandwidth=bandwidth,
        memory_size=info.memory_size if info else 0,
        units=units,
        clock=clock,
        estimated=frozenset(estimated),
        sources=sources_of(entry, arch) | {"rates": arch["source"]},
        confidence=entry["confidence"],
        caches=dict(info.caches) if info else {},
        notes=(_assumed(part, info, units, clock, bandwidth), *notes_of(entry)),
        accumulate=arch.get("accumulate", ""),
        granularity=entry.get("granularity", ""),
        rates=dict(expanded(rates)),
        measured={
            f"{m['metric']} [{m['unit']}]": float(m["value"]) for m in entry.get("measured", [])
        },
        year=int(entry.get("year", 0)),
    )


def _clock(entry: Entry, part: dict[str, Any], info: DeviceInfo | None) -> float:
    seen = info.clock if info else 0.0
    if "boost_clock" in part:
        return float(part["boost_clock"])
    return max(float(entry["compute"]["boost_clock"]), seen)


def _assumed(
    part: Entry, info: DeviceInfo | None, units: int, clock: float, bandwidth: float
) -> str:
    """What the numbers rest on, in plain words."""
    whose = f"the published boost of {part['name']}" if part else "the highest boost of the family"
    cores = f"{units} core{'' if units == 1 else 's'}"
    text = f"peaks = {cores} x FLOP per clock x {clock / 1e9:.2f} GHz ({whose})"
    text += f"; {bandwidth / 1e9:.0f} GB/s is the data-sheet figure of whole sockets"
    if info and "hypervisor" in info.extra:
        text += (
            "; a virtual machine hides the model and shares the socket, so both are upper limits "
            "and times from them are lower bounds"
        )
    return text
