"""Audit of the database: identities that every entry must satisfy, or admit in its own text.

    audit()             findings over all entries; `admitted` ones carry the entry's reason
    audit_entry(...)    the same for one entry

An exception is a line in the entry:
`exceptions = [{ check = "rate", near = [0.866], reason = "..." }]`. It admits only findings whose
ratio is near a listed one: an admitted oddity is no licence for another error. An exception that is
no longer needed is a finding itself, so that the list cannot rot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from portable.device import DeviceInfo
from portable.hwdb.cpu import core_rates
from portable.hwdb.load import Entry, architecture_of, architectures, entries
from portable.hwdb.match import candidates
from portable.hwdb.spec import GROUPS, clock_for, published_peaks, rates_of

TOLERANCE = 0.03
_GIB = 1.024**3  # bytes counted in 1024s, printed in 1000s
LADDER = {
    ("float8/matrix", "bfloat16/matrix"): 2.0,
    ("int8/matrix", "float16/matrix"): 2.0,
    ("tfloat32/matrix", "bfloat16/matrix"): 0.5,
    ("float4/matrix", "float8/matrix"): 2.0,
    ("bfloat16/matrix", "float16/matrix"): 1.0,
    ("float64/matrix", "float64/vector"): 2.0,
    ("float16/matrix_float16_accumulate", "float16/matrix"): 1.0,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """An identity that does not hold. `admitted` is the entry's own reason, "" when it has none."""

    key: str
    check: str
    message: str
    admitted: str = ""

    def __str__(self) -> str:
        return f"{self.key}: {self.check}: {self.message}" + (
            f" (admitted: {self.admitted})" if self.admitted else ""
        )


def audit() -> list[Finding]:
    """Every finding of every entry, open ones first."""
    found = [f for key in entries() for f in audit_entry(key, entries()[key])]
    return sorted(found, key=lambda f: (bool(f.admitted), f.key, f.check))


Found = Iterator[tuple[str, float]]
"""Message and, where the check compares numbers, the ratio found (else 0.0)."""


def audit_entry(key: str, entry: Entry) -> list[Finding]:
    """Findings of one entry, its admitted exceptions matched to them; stale ones reported."""
    if entry.get("architecture") not in architectures():
        return [Finding(key, "architecture", f"no architectures/{entry.get('architecture')}.toml")]
    arch = architecture_of(entry)
    found = []
    used = set()
    for check, run in CHECKS.items():
        for message, ratio in run(key, entry, arch):
            number, reason = _exception(entry, check, ratio)
            used.add(number)
            found.append(Finding(key, check, message, reason))
    for number, exception in enumerate(entry.get("exceptions", [])):
        if number not in used:
            text = f"{exception['check']!r} is admitted, but holds or fails by another ratio"
            found.append(Finding(key, "exceptions", text))
    return found


def _exception(entry: Entry, check: str, ratio: float) -> tuple[int, str]:
    """Number and reason of the exception that admits a finding; (-1, "") when none does."""
    for number, exception in enumerate(entry.get("exceptions", [])):
        near = exception.get("near", [])
        fits = any(abs(ratio / n - 1) < 0.02 for n in near) if near or ratio else True
        if exception["check"] == check and fits:
            return number, exception["reason"]
    return -1, ""


def check_fields(key: str, entry: Entry, arch: Entry) -> Found:
    """Every group of numbers has a source; confidence is one of three words; dense is dense."""
    for group in (*GROUPS, "match"):
        if entry.get(group) and not entry[group].get("source"):
            yield f"[{key}.{group}] has no source", 0.0
    for measured in entry.get("measured", []):
        if not measured.get("source"):
            yield f"measured {measured['metric']} has no source", 0.0
    for group in ("rates", "limits"):
        if arch.get(group) and not arch[group].get("source"):
            yield f"architecture {entry['architecture']}: {group} has no source", 0.0
    if entry.get("confidence") not in ("high", "medium", "low"):
        yield f"confidence {entry.get('confidence')!r} is not high, medium or low", 0.0


def check_sparsity(key: str, entry: Entry, arch: Entry) -> Found:
    """Peaks are dense (trap 1): no stated sparsity, nothing at two or four times the formula."""
    if "sparsity" in entry.get("peak", {}):
        yield f"peaks are not dense: {entry['peak']['sparsity']}", 0.0
    for kind, ratio in _ratios(entry, arch):
        if "/matrix" in kind and any(abs(ratio / n - 1) < TOLERANCE for n in (2, 4)):
            yield f"{kind} is {ratio:.2f} x (rate x units x clock): a sparse number?", ratio


def check_rate(key: str, entry: Entry, arch: Entry) -> Found:
    """Peak = rate per unit x units x clock, for each dtype (traps 3, 4, 5, 13)."""
    compute = entry.get("compute", {})
    boost, matrix = compute.get("clock", 0.0), compute.get("matrix_clock", 0.0)
    for kind, ratio in _ratios(entry, arch):
        if abs(ratio - 1) <= TOLERANCE:
            continue
        why = ""
        if matrix and abs(ratio * matrix / boost - 1) < 0.01:
            why = ": computed with the boost clock instead of the matrix clock?"
        elif abs(ratio - 0.5) < 0.02:
            why = ": rate of the other accumulate type, or of one of two dies?"
        elif "/matrix" in kind and _is_vector_value(kind, entry):
            why = ": the vector figure in the place of the matrix one?"
        yield f"{kind} is {ratio:.3f} x (rate x units x clock){why}", ratio


def check_ladder(key: str, entry: Entry, arch: Entry) -> Found:
    """Ratios between dtypes follow the architecture's rates, or the usual ladder (traps 2, 6)."""
    peaks, rates = published_peaks(entry), rates_of(entry, arch)
    usual = arch.get("ladder", {})
    for (a, b), common in LADDER.items():
        if a not in peaks or b not in peaks:
            continue
        want = rates[a] / rates[b] if a in rates and b in rates else usual.get(f"{a} : {b}", common)
        ratio = peaks[a] / peaks[b]
        # float64 on both units is quoted at one clock, everything else within the matrix unit.
        if abs(ratio / want - 1) > TOLERANCE:
            yield f"{a} / {b} is {ratio:.2f}, expected {want:g}", ratio


def check_missing(key: str, entry: Entry, arch: Entry) -> Found:
    """No matrix peak for a dtype that the architecture has no matrix mode for (trap 7)."""
    for kind in published_peaks(entry):
        dtype, unit = kind.split("/")
        if unit.startswith("matrix") and dtype in arch.get("missing", []):
            yield f"{kind}: {arch['name']} has no {dtype} matrix mode", 0.0


def check_granularity(key: str, entry: Entry, arch: Entry) -> Found:
    """What is sold and what a runtime shows are told apart (trap 8)."""
    match = entry.get("match", {})
    text = entry.get("granularity", "").lower()
    parts = any(w in text for w in ("one device per core", "one device per die", "two runtime"))
    shows_parts = "sum of two" in text or (parts and "(= chip)" not in text)
    decided = "share" in match or "units" in match
    if match and shows_parts and not decided:
        yield f"a runtime shows only part of this ({text}), but match has no share", 0.0
    if "share" in match and not text:
        yield "match has a share, but granularity does not say of what", 0.0


def check_bins(key: str, entry: Entry, arch: Entry) -> Found:
    """Bins under one name scale with the units seen; shared strings have unit ranges (trap 9)."""
    match = entry.get("match", {})
    if entry.get("binned") and not entry.get("compute", {}).get("units"):
        yield "binned, but compute.units is missing: peaks cannot scale", 0.0
    if (match.get("shared_names") or match.get("shared_pci")) and "units" not in match:
        yield "shares a runtime string, but has no range of units to decide by", 0.0


def check_bandwidth(key: str, entry: Entry, arch: Entry) -> Found:
    """Bandwidth = bus x pin rate, or channels x transfer rate x 8 B (traps 10, 12)."""
    for where, memory in _memories(entry):
        want = _computed_bandwidth(memory)
        if not want or "bandwidth" not in memory:
            continue
        ratio = memory["bandwidth"] / want
        if abs(ratio - 1) <= 0.02:
            continue
        why = ""
        if abs(ratio - 2) < 0.05 or abs(ratio - 0.5) < 0.02:
            why = ": is the clock the data rate already, or half of it?"
        elif min(abs(ratio / _GIB - 1), abs(ratio / 1.024**4 - 1)) < 0.01:
            why = ": counted in 1024s?"
        yield f"{where}bandwidth is {ratio:.3f} x (bus x rate){why}", ratio


def check_magnitude(key: str, entry: Entry, arch: Entry) -> Found:
    """Clocks in Hz, sizes in bytes, rates in B/s: nothing is a thousand times off (trap 10)."""
    compute, memory = entry.get("compute", {}), entry.get("memory", {})
    for field in ("clock", "matrix_clock", "boost_clock"):
        clock = compute.get(field)
        if clock is not None and not 0.3e9 <= clock <= 6.5e9:
            yield f"{field} {clock:g} is no clock in Hz (MHz or kHz?)", 0.0
    on_chip = "SRAM" in memory.get("type", "")
    if "bandwidth" in memory and not on_chip and not 5e9 <= memory["bandwidth"] <= 40e12:
        yield f"bandwidth {memory['bandwidth']:g} is no memory bandwidth in B/s", 0.0
    if "size" in memory and not 2e8 <= memory["size"] <= 2e12:
        yield f"memory size {memory['size']:g} is no size in B", 0.0
    for kind, peak in published_peaks(entry).items():
        if not 2e10 <= peak <= 2e17:
            yield f"{kind} {peak:g} is no peak in FLOP/s", 0.0


def check_capacity(key: str, entry: Entry, arch: Entry) -> Found:
    """The size sold and the size a runtime shows agree; 1024s are not 1000s (trap 12)."""
    memory = entry.get("memory", {})
    if "size_seen" not in memory or "size" not in memory:
        return
    ratio = memory["size_seen"] / memory["size"]
    if not 0.93 <= ratio <= 1.09:
        yield f"a runtime shows {ratio:.3f} x the listed size", ratio


def check_ridge(key: str, entry: Entry, arch: Entry) -> Found:
    """Ridge points of memory-fed parts lie between 1 and 3000 FLOP/B."""
    memory = entry.get("memory", {})
    bandwidth = memory.get("bandwidth")
    if not bandwidth or "SRAM" in memory.get("type", ""):
        return
    for kind, peak in published_peaks(entry).items():
        low = 0.05 if kind.startswith("float64") else 1.0
        if not low <= peak / bandwidth <= 3000:
            yield f"ridge of {kind} is {peak / bandwidth:.3g} FLOP/B", 0.0


def check_measured(key: str, entry: Entry, arch: Entry) -> Found:
    """Nothing measured exceeds its roof; ceilings that others reached are no peaks (trap 14)."""
    peaks, bandwidth = published_peaks(entry), entry.get("memory", {}).get("bandwidth")
    words = {"fp64": "float64", "fp32": "float32", "tf32": "tfloat32", "bf16": "bfloat16",
             "fp16": "float16", "fp8": "float8", "int8": "int8"}  # fmt: skip
    for measured in entry.get("measured", []):
        metric, value, unit = measured["metric"], measured["value"], measured["unit"]
        named = [w for w in words if w in metric]
        dtype = words[min(named, key=metric.index)] if named else ""
        roofs = [p for k, p in peaks.items() if k.split("/")[0] == dtype and unit.endswith("OP/s")]
        if bandwidth and unit == "B/s" and re.search("triad|stream|hbm|dram", metric):
            roofs = [bandwidth]
        if roofs and value > max(roofs) * 1.005:
            yield (
                f"measured {metric} {value:.4g} exceeds its roof {max(roofs):.4g}",
                value / max(roofs),
            )


def check_names(key: str, entry: Entry, arch: Entry) -> Found:
    """Every runtime string leads to this entry and to no other (trap 11)."""
    match = entry.get("match", {})
    for pattern in match.get("patterns", []):
        if pattern.startswith(".*") or pattern.endswith(".*"):
            yield f"pattern {pattern!r} is not anchored", 0.0
    for name in match.get("names", []):
        info = DeviceInfo(name, kind=arch["kind"])
        if (found := candidates(info)) != [key]:
            yield f"{name!r} leads to {found or 'nothing'}", 0.0


def check_cpu(key: str, entry: Entry, arch: Entry) -> Found:
    """FLOP per clock = pipes x width x 2; ISA extensions do not widen pipes (trap 15)."""
    if arch["kind"] != "cpu":
        return
    rates = core_rates(arch)
    want = arch["fma_pipes"] * arch["fma_bits"] / 32 * 2
    if rates.get("float32/vector") != want:
        yield f"float32 rate {rates.get('float32/vector')} is not pipes x lanes x 2 = {want:g}", 0.0
    if rates.get("float64/vector") != want / 2:
        yield f"float64 rate {rates.get('float64/vector')} is not half of float32's", 0.0
    for part in entry.get("parts", []):
        if part.get("cores", 0) > 256:
            yield f"{part['name']} with {part['cores']} cores: hardware threads?", 0.0


CHECKS: dict[str, Callable[[str, Entry, Entry], Found]] = {
    "fields": check_fields,
    "sparsity": check_sparsity,
    "rate": check_rate,
    "ladder": check_ladder,
    "missing": check_missing,
    "granularity": check_granularity,
    "bins": check_bins,
    "bandwidth": check_bandwidth,
    "magnitude": check_magnitude,
    "capacity": check_capacity,
    "ridge": check_ridge,
    "measured": check_measured,
    "names": check_names,
    "cpu": check_cpu,
}


def _ratios(entry: Entry, arch: Entry) -> Iterator[tuple[str, float]]:
    """Published peak over rate x units x clock, where all three are known."""
    units = entry.get("compute", {}).get("units", 0)
    rates = rates_of(entry, arch)
    for kind, peak in published_peaks(entry).items():
        clock = clock_for(entry, kind)
        if kind in rates and units and clock:
            yield kind, peak / (rates[kind] * units * clock)


def _is_vector_value(kind: str, entry: Entry) -> bool:
    peaks = published_peaks(entry)
    vector = {p for k, p in peaks.items() if "/vector" in k}
    return any(abs(peaks[kind] / p - 1) < 0.01 for p in vector)


def _memories(entry: Entry) -> Iterator[tuple[str, Entry]]:
    memory = entry.get("memory", {})
    yield "", memory
    for part in entry.get("parts", []):
        if "bandwidth" in part:
            yield f"{part['name']}: ", {k: v for k, v in (memory | part).items() if k != "bus_bits"}


def _computed_bandwidth(memory: Entry) -> float:
    if "bus_bits" in memory and "pin_rate" in memory:
        return float(memory["bus_bits"] * memory["pin_rate"] / 8)
    if "channels" in memory and "transfer_rate" in memory:
        return float(memory["channels"] * memory["transfer_rate"] * 8)
    return 0.0
