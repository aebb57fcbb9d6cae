"""Audit of other tools' tables: rows of (device, dtype, peak) against the database.

    read_rows(path)              CSV or JSON with the columns device, dtype, value
    audit_rows(rows)             one Verdict per row
    likely_mistakes(...)         what a wrong number probably is, most specific first

`dtype` is a dtype, or "bandwidth" or "memory". Values below 1e6 are taken as TFLOP/s (TOP/s), as GB/s
and as GB; larger ones as FLOP/s, B/s and B.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portable.device import DeviceInfo, DeviceSpec
from portable.dtypes import canonical
from portable.errors import DTypeError, UnknownNameError
from portable.hwdb.load import architecture_of, entries
from portable.hwdb.match import match
from portable.hwdb.names import resolve
from portable.hwdb.spec import build

_CLOSE = 0.015  # two figures are the same number, rounded differently
_ROW_FIELDS = ("device", "dtype", "value")
_UNIT_WORDS = {"matrix": "", "vector": " on the vector unit"}


@dataclass(frozen=True, slots=True)
class Row:
    """One number of a foreign table, in SI units; `unit` is the unit class it claims."""

    device: str
    dtype: str
    value: float
    unit: str = "matrix"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the database says of a row: "ok", "wrong" or "unknown" (device or dtype)."""

    row: Row
    status: str
    key: str = ""
    expected: float = 0.0
    mistakes: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = f"{self.row.device} {self.row.dtype} {self.row.value:.4g}: {self.status}"
        want = f", {self.key} has {self.expected:.4g}" if self.status == "wrong" else ""
        return head + want + (f": {'; or '.join(self.mistakes)}" if self.mistakes else "")


def read_rows(path: Path) -> list[Row]:
    """Rows of a CSV (with a header) or JSON file (list of objects).

    Raises:
        ValueError: a column is missing or a value is no number; says which line.
    """
    if path.suffix == ".json":
        records: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    else:
        with path.open(encoding="utf-8", newline="") as file:
            lines = (line for line in file if line.strip() and not line.startswith("#"))
            records = list(csv.DictReader(lines))
    rows = []
    for number, record in enumerate(records, 1):
        missing = [f for f in _ROW_FIELDS if not record.get(f)]
        if missing:
            raise ValueError(f"{path}: row {number} has no {', '.join(missing)}; got {record}")
        try:
            value = float(record["value"])
        except ValueError:
            raise ValueError(f"{path}: row {number}: {record['value']!r} is no number") from None
        rows.append(row(record["device"], record["dtype"], value, record.get("unit") or "matrix"))
    return rows


def row(device: str, dtype: str, value: float, unit: str = "matrix") -> Row:
    """A row in SI units from a value as tables write it (TFLOP/s, GB/s, GB, or SI)."""
    if value < 1e6:
        value *= 1e9 if dtype in ("bandwidth", "memory") else 1e12
    return Row(device.strip(), dtype.strip(), value, unit)


def audit_rows(rows: Iterable[Row]) -> list[Verdict]:
    """A verdict per row, in order."""
    return [_verdict(r) for r in rows]


def _verdict(row: Row) -> Verdict:
    key = _key_of(row.device)
    if not key:
        return Verdict(row, "unknown", mistakes=("no entry of that name",))
    spec = build(key)
    expected = _expected(spec, row)
    if not expected:
        return Verdict(row, "unknown", key, mistakes=tuple(_vanished(key, row)))
    if abs(row.value / expected - 1) <= _CLOSE:
        return Verdict(row, "ok", key, expected)
    return Verdict(row, "wrong", key, expected, tuple(likely_mistakes(key, row)))


def _key_of(device: str) -> str:
    try:
        return resolve(device)[0]
    except UnknownNameError:
        hit = match(DeviceInfo(device)) or match(DeviceInfo(device, kind="accelerator"))
        return hit.key if hit else ""


def _dtype(name: str) -> str:
    extra = {"fp4": "float4_e2m1fn", "fp6": "float6_e2m3fn", "tf32": "tfloat32", "int4": "int4",
             "tfloat32": "tfloat32", "bf16": "bfloat16", "float8": "float8_e4m3fn"}  # fmt: skip
    low = name.casefold()
    if low in extra:
        return extra[low]
    try:
        return canonical(low)
    except DTypeError:
        return low


def _expected(spec: DeviceSpec, row: Row) -> float:
    if row.dtype == "bandwidth":
        return spec.bandwidth
    if row.dtype == "memory":
        return float(spec.memory_size)
    dtype = _dtype(row.dtype)
    own = spec.peaks.get(f"{dtype}/{row.unit}", 0.0)
    # A table without unit classes means the matrix unit where there is one.
    return own or (spec.peaks.get(f"{dtype}/vector", 0.0) if row.unit == "matrix" else 0.0)


def _vanished(key: str, row: Row) -> Iterator[str]:
    arch = architecture_of(entries()[key])
    name = _dtype(row.dtype).split("_")[0]
    if name in arch.get("missing", []):
        yield f"{arch['name']} has no {name} matrix mode"
    else:
        yield f"the database has no citable {row.dtype} figure for {key}"


def likely_mistakes(key: str, row: Row) -> list[str]:
    """What a wrong number probably is; several when several figures coincide, [] when none does."""
    spec = build(key)
    if row.dtype in ("bandwidth", "memory"):
        found = list(_capacity_mistakes(key, spec, row))
    else:
        found = list(_peak_mistakes(key, spec, row))
    found += _scale_mistakes(_expected(spec, row), row.value)
    return list(dict.fromkeys(found + _other_device(key, spec, row)))


def _peak_mistakes(key: str, spec: DeviceSpec, row: Row) -> Iterator[str]:
    dtype, value = _dtype(row.dtype), row.value
    expected = _expected(spec, row)
    ratio = value / expected
    if _near(ratio, 2) and spec.vendor in ("NVIDIA", "AMD"):
        yield "this is the sparse number (2:4)"
    if spec.vendor == "AWS" and 3.5 < ratio < 4.2:
        yield "this is the sparse number (4:1)"
    if spec.matrix_clock and _near(ratio, spec.clock / spec.matrix_clock):
        yield "computed with the boost clock; the matrix peak is at the lower matrix clock"
    elif _near(value, _formula(spec, dtype, row.unit)):
        yield "rate x units x boost clock; the published figure is for another matrix clock"
    for other, peak in spec.peaks.items():
        name, unit = other.split("/")
        if not _near(value, peak) or (name == dtype and unit == row.unit) or _near(peak, expected):
            continue
        if name == dtype and unit == "matrix_float16_accumulate":
            yield "this is the rate with float16 accumulate; float32 accumulate is slower"
        elif name == dtype:
            yield f"this is the {unit} figure, not the {row.unit} one"
        else:
            yield f"this is the {name} figure{_UNIT_WORDS.get(unit, f' ({unit})')}"
    for other, peak in spec.peaks.items():
        name, unit = other.split("/")
        if unit == "matrix" and name != dtype and _near(value, 2 * peak) and not _near(ratio, 2):
            yield f"this is the sparse {name} figure"
    if _near(ratio, 0.5) or _near(ratio, 0.25):
        yield f"divided once too often (or one part of a {spec.granularity or 'module'})"
    if abs(value / expected - 1) < 0.12:
        yield "rounded or preliminary figure"
    if "packed" in str(spec.peaks) and _near(ratio, 0.5):
        yield "the unpacked rate"


def _capacity_mistakes(key: str, spec: DeviceSpec, row: Row) -> Iterator[str]:
    expected = _expected(spec, row)
    ratio = row.value / expected
    for power, words in ((1, "KiB"), (2, "MiB"), (3, "GiB"), (4, "TiB")):
        if abs(ratio / 1.024**power - 1) < 0.004 and power > 1:
            yield f"counted in {words} and printed in decimal units"
        if abs(ratio * 1.024**power - 1) < 0.004 and power > 1:
            yield f"decimal figure divided by 1024s ({words})"
    if _near(ratio, 2):
        yield "twice: two dies or cards, or a data rate doubled again"
    if _near(ratio, 0.5):
        yield "half: one die or stack of two, or a clock that is not yet the data rate"
    if row.dtype == "bandwidth" and abs(ratio - 1) < 0.08:
        yield "launch figure or another bin of the memory"


def _scale_mistakes(expected: float, value: float) -> list[str]:
    ratio = value / expected if expected else 0.0
    powers = (1e-9, 1e-6, 1e-3, 0.01, 0.1, 10, 100, 1e3, 1e6, 1e9)
    return [f"{p:g} times off: a slip of units" for p in powers if _near(ratio, p)]


def _other_device(key: str, spec: DeviceSpec, row: Row) -> list[str]:
    """Entries of the same maker whose figure this is: a copied row or a wrong default."""
    found = []
    for other in entries():
        arch = architecture_of(entries()[other])
        if other == key or arch["kind"] == "cpu" or arch["vendor"] != spec.vendor:
            continue
        if _near(row.value, _expected(build(other), row)):
            found.append(other)
    return [f"this is the figure of {', '.join(found[:4])}"] if found else []


def _formula(spec: DeviceSpec, dtype: str, unit: str) -> float:
    return spec.rates.get(f"{dtype}/{unit}", 0.0) * spec.units * spec.clock


def _near(a: float, b: float) -> bool:
    return bool(b) and abs(a / b - 1) <= _CLOSE
