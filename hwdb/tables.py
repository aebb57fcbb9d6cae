"""Audit of other tools' tables: rows of (device, dtype, peak) against the database.

    read_rows(path)              CSV or JSON with the columns device, dtype, value
    audit_rows(rows)             one Verdict per row
    likely_mistakes(...)         what a wrong number probably is, most specific first

`dtype` is a dtype, or "bandwidth" or "memory". Values below 1e6 are taken as TFLOP/s (TOP/s), as
GB/s and as GB; larger ones as FLOP/s, B/s and B.
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
# What tools fall back to when they do not know a device.
_DEFAULTS = ("nvidia-a100-sxm4-80gb", "nvidia-h100-sxm5-80gb")


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
        if self.status == "wrong" and not self.mistakes:
            return head + want + ": no usual mistake explains it"
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
    expected = _expected(spec, row)
    if row.dtype in ("bandwidth", "memory"):
        found = list(_capacity_mistakes(row, row.value / expected))
    else:
        found = [
            *_formula_mistakes(key, spec, row, row.value / expected),
            *_column_mistakes(spec, row, expected),
        ]
    found += _scale_mistakes(expected, row.value)
    return list(dict.fromkeys(found + _other_device(key, spec, row)))


def _formula_mistakes(key: str, spec: DeviceSpec, row: Row, ratio: float) -> Iterator[str]:
    """Sparse for dense, boost for matrix clock, halved or doubled, rounded."""
    sparse = architecture_of(entries()[key]).get("structured_sparsity", 0)
    if sparse and abs(ratio / sparse - 1) < (0.05 if sparse > 2 else _CLOSE):
        yield f"this is the sparse number ({sparse} times the dense one)"
    boost = spec.rates.get(f"{_dtype(row.dtype)}/{row.unit}", 0.0) * spec.units * spec.clock
    if spec.matrix_clock and _near(ratio, spec.clock / spec.matrix_clock):
        yield "computed with the boost clock; the matrix peak is at the lower matrix clock"
    elif _near(row.value, boost):
        yield "rate x units x boost clock; the published figure is at a lower matrix clock"
    database = 4 * spec.peaks.get("float32/vector", 0.0)
    if spec.architecture == "sm_90" and "16" in row.dtype and _near(row.value, database):
        yield "four times the float32 vector rate, as a public card database prints vector float16"
    if _near(ratio, 2) and not sparse:
        yield "twice: two dies, or another accumulate type"
    if _near(ratio, 0.5) or _near(ratio, 0.25):
        yield "divided once too often, one die of two, or the unpacked rate"
    if abs(ratio - 1) < 0.12:
        yield "rounded, preliminary or of another clock"


def _column_mistakes(spec: DeviceSpec, row: Row, expected: float) -> Iterator[str]:
    """Another figure of the same device in the place of the one asked for."""
    dtype, value = _short(_dtype(row.dtype)), row.value
    for kind, peak in spec.peaks.items():
        name, unit = _short(kind.split("/")[0]), kind.split("/")[1]
        same = name == dtype and unit == row.unit
        if not _near(value, peak) or same or _near(peak, expected):
            continue
        if name == dtype and unit == "matrix_float16_accumulate":
            yield "this is the rate with float16 accumulate; float32 accumulate is slower"
        elif name == dtype:
            yield f"this is the {unit} figure, not the {row.unit} one"
        elif unit in ("matrix", "vector"):
            yield f"this is the {name} figure" + (" of the vector unit" if unit == "vector" else "")


def _short(dtype: str) -> str:
    return {"uint8": "int8"}.get(dtype, dtype.split("_")[0])


def _capacity_mistakes(row: Row, ratio: float) -> Iterator[str]:
    for power, words in ((2, "MiB"), (3, "GiB"), (4, "TiB")):
        if abs(ratio / 1.024**power - 1) < 0.004:
            yield f"counted in {words} and printed in decimal units"
        if abs(ratio * 1.024**power - 1) < 0.004:
            yield f"decimal figure divided by 1024s ({words})"
    if abs(ratio / 2 - 1) < 0.04:
        yield "twice: two dies or cards, or a data rate doubled again"
    if abs(ratio / 0.5 - 1) < 0.04:
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
    if found:
        return [f"this is the figure of {', '.join(found[:4])}"]
    for other in _DEFAULTS:
        if other != key and _near(row.value, _expected(build(other), row)):
            return [f"this is the figure of {other}: a default for unknown devices?"]
    return []


def _near(a: float, b: float) -> bool:
    return bool(b) and abs(a / b - 1) <= _CLOSE
