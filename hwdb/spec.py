"""Builds a DeviceSpec from an entry: as published, or as one machine shows the device."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from portable.device import DeviceInfo, DeviceSpec
from portable.hwdb.load import Entry, architecture_of, entries, merged

UNIT_CLASSES = (
    "matrix",
    "matrix_float16_accumulate",
    "vector",
    "vector_packed",
    "vector_unpacked",
)
# One name in the files, several dtypes at the same rate.
EXPAND = {
    "float8": ("float8_e4m3fn", "float8_e5m2"),
    "float6": ("float6_e2m3fn", "float6_e3m2fn"),
    "float4": ("float4_e2m1fn",),
    "int8": ("int8", "uint8"),
}
GROUPS = ("compute", "peak", "derived", "memory", "cache", "interconnect", "host_link", "power")


def build(
    key: str, info: DeviceInfo | None = None, *, share: float = 1.0, part: str = ""
) -> DeviceSpec:
    """The spec of an entry; with `info`, of that very device.

    `share` is the part of the chip that one runtime device is (1/2 for a core of a TPU v3);
    `part` names a processor model of a CPU entry.
    """
    entry = entries()[key]
    arch = architecture_of(entry)
    if arch["kind"] == "cpu":
        from portable.hwdb.cpu import build_cpu

        return build_cpu(key, entry, arch, info, part)
    spec = _published(key, entry, arch)
    if info is not None:
        spec = _as_seen(spec, entry, arch, info, share)
    return spec


def rates_of(entry: Entry, arch: Entry) -> dict[str, float]:
    """Dense FLOP per clock of one unit by "dtype/unit", names as in the files."""
    table = merged(arch.get("rates", {}), entry.get("rates", {}))
    return {f"{d}/{u}": r for u in UNIT_CLASSES for d, r in table.get(u, {}).items()}


def published_peaks(entry: Entry, table: str = "peak") -> dict[str, float]:
    """Published (or `derived`) peaks of an entry by "dtype/unit", names as in the files."""
    group = entry.get(table, {})
    return {f"{d}/{u}": v for u in UNIT_CLASSES for d, v in group.get(u, {}).items()}


def clock_for(entry: Entry, kind: str) -> float:
    """Clock [Hz] behind a peak: the matrix clock for matrix peaks except float64, else boost.

    NVIDIA prints float64 matrix peaks at the boost clock and all others at the matrix clock.
    """
    compute = entry.get("compute", {})
    clock = float(compute.get("clock", 0.0))
    dtype, unit = kind.split("/")
    if unit.startswith("matrix") and dtype != "float64":
        return float(compute.get("matrix_clock", clock))
    return clock


def computed_peaks(entry: Entry, arch: Entry) -> dict[str, float]:
    """Peaks by rate x units x clock for every rate of the architecture; {} where not allowed."""
    units = entry.get("compute", {}).get("units", 0)
    if not units or not entry.get("derive", True):
        return {}
    return {
        kind: rate * units * clock
        for kind, rate in rates_of(entry, arch).items()
        if (clock := clock_for(entry, kind))
    }


def _published(key: str, entry: Entry, arch: Entry) -> DeviceSpec:
    sparsity = entry.get("peak", {}).get("sparsity", "dense")
    # A figure that may be sparse is kept in the entry, never used as a roof.
    peaks = published_peaks(entry) if sparsity.startswith("dense") else {}
    ruled = published_peaks(entry, "derived")
    computed = computed_peaks(entry, arch)
    extra = {k: v for k, v in (computed | ruled).items() if k not in peaks}
    compute, memory = entry.get("compute", {}), entry.get("memory", {})
    estimated = {f"peaks.{kind}" for kind, _ in expanded(extra)}
    if (peaks == {} and extra) or sparsity != "dense":
        estimated.add("peaks")
    return DeviceSpec(
        key=key,
        name=entry["name"],
        vendor=entry.get("vendor") or arch["vendor"],
        kind=arch["kind"],
        architecture=arch["targets"][0],
        peaks=dict(expanded(peaks | extra)),
        bandwidth=float(memory.get("bandwidth", 0.0)),
        memory_size=int(memory.get("size", 0)),
        units=int(compute.get("units", 0)),
        clock=float(compute.get("clock", 0.0)),
        estimated=frozenset(estimated),
        sources=sources_of(entry, arch),
        confidence=entry["confidence"],
        limits={k: v for k, v in arch.get("limits", {}).items() if isinstance(v, int)},
        caches={k: int(v) for k, v in entry.get("cache", {}).items() if isinstance(v, int)},
        notes=tuple(notes_of(entry)),
        matrix_clock=float(compute.get("matrix_clock", 0.0)),
        accumulate=entry.get("peak", {}).get("accumulate", arch.get("accumulate", "")),
        granularity=entry.get("granularity", ""),
        rates=dict(expanded(rates_of(entry, arch))),
        measured={f"{m['metric']} [{m['unit']}]": float(m["value"])
                  for m in entry.get("measured", [])},
        interconnect={k: float(v) for k, v in entry.get("interconnect", {}).items()
                      if isinstance(v, int | float)},
        power=float(entry.get("power", {}).get("tdp", 0.0)),
        year=int(entry.get("year", 0)),
    )  # fmt: skip


def expanded(peaks: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Peaks with the dtype names of `portable`: "float8/matrix" counts for both float8 formats."""
    for kind, value in peaks.items():
        dtype, unit = kind.split("/")
        for name in EXPAND.get(dtype, (dtype,)):
            yield f"{name}/{unit}", float(value)


def sources_of(entry: Entry, arch: Entry) -> dict[str, str]:
    """Where each group of numbers is from."""
    found = {g: entry[g]["source"] for g in GROUPS if "source" in entry.get(g, {})}
    for group in ("rates", "limits"):
        if "source" in arch.get(group, {}):
            found[group] = arch[group]["source"]
    return found


def notes_of(entry: Entry) -> Iterable[str]:
    """Notes, conflicts, cautions and admitted exceptions of an entry, in this order."""
    yield from entry.get("notes", [])
    yield from (f"conflict: {text}" for text in entry.get("conflicts", []))
    yield from (f"caution: {text}" for text in entry.get("cautions", []))
    for exception in entry.get("exceptions", []):
        yield f"admitted exception ({exception['check']}): {exception['reason']}"


def seen_units(units: int, arch: Entry, listed: int) -> int:
    """Units of the database behind what a runtime counted.

    Runtimes count in other units (work-group processors of two CUs, vector engines of 1/8 core):
    the ratio that meets the listed count wins, else the first that does not exceed it.
    """
    counts = [round(units * ratio) for ratio in arch.get("runtime_units", [1])]
    fitting = [c for c in counts if 0 < c <= listed]
    return listed if listed in counts else max(fitting, default=counts[0])


def _as_seen(
    spec: DeviceSpec, entry: Entry, arch: Entry, info: DeviceInfo, share: float
) -> DeviceSpec:
    spec = _share(spec, share)
    spec = _memory_seen(spec, entry, info)
    binned = bool(entry.get("binned"))
    if not spec.units or not info.units:
        if binned and not info.units:
            text = (
                "bins share this name and the driver told no unit count: the listed bin is assumed"
            )
            spec = replace(
                spec, estimated=spec.estimated | {"peaks", "units"}, notes=(text, *spec.notes)
            )
        return spec
    units = seen_units(info.units, arch, spec.units)
    if units == spec.units:
        return spec
    if (units > spec.units and not binned) or not entry.get("derive", True):
        text = f"the driver shows {units} units, the entry lists {spec.units}: peaks are not scaled"
        return replace(spec, notes=(text, *spec.notes))
    ratio = units / spec.units
    return replace(
        spec,
        name=f"{spec.name} [{units} of {spec.units} units]",
        peaks={k: v * ratio for k, v in spec.peaks.items()},
        units=units,
        estimated=spec.estimated | {"peaks", "units"},
        notes=(f"peaks = rate per unit x {units} units seen x clock", *spec.notes),
    )


def _share(spec: DeviceSpec, share: float) -> DeviceSpec:
    if share == 1.0:
        return spec
    text = f"one runtime device is {share:g} of the chip; {spec.granularity}"
    return replace(
        spec,
        name=f"{spec.name} [{share:g} of the chip]",
        peaks={k: v * share for k, v in spec.peaks.items()},
        bandwidth=spec.bandwidth * share,
        memory_size=int(spec.memory_size * share),
        units=round(spec.units * share),
        estimated=spec.estimated | {"bandwidth"},
        notes=(text, *spec.notes),
    )


def _memory_seen(spec: DeviceSpec, entry: Entry, info: DeviceInfo) -> DeviceSpec:
    """Of the sizes a part is sold with, the one nearest to what the driver shows."""
    sizes = entry.get("memory", {}).get("sizes")
    if not sizes or not info.memory_size:
        return spec
    nearest = min(sizes, key=lambda size: abs(size - info.memory_size))
    return replace(spec, memory_size=int(nearest))


def at_clock(spec: DeviceSpec, clock: float) -> DeviceSpec:
    """The same device with its peaks at the clock [Hz] seen under load (or locked).

    Data sheets quote a boost clock; a locked or power-limited part runs slower, and a board that
    boosts above the reference runs faster than its data sheet. Bandwidth does not change.

    Raises:
        ValueError: the entry has no clock, or the clock is not positive.
    """
    if not spec.clock or clock <= 0:
        raise ValueError(
            f"{spec.name}: cannot scale to {clock:g} Hz; the entry's clock is {spec.clock:g} Hz"
        )
    matrix = spec.matrix_clock or spec.clock

    def factor(kind: str) -> float:
        other = re.match(r"(?!float64).*/matrix", kind)
        return clock / (matrix if other else spec.clock)

    return replace(
        spec,
        clock=clock,
        matrix_clock=clock if spec.matrix_clock else 0.0,
        peaks={k: v * factor(k) for k, v in spec.peaks.items()},
        estimated=spec.estimated | {"peaks", "clock"},
        notes=(f"peaks scaled to {clock / 1e6:.0f} MHz as seen", *spec.notes),
    )
