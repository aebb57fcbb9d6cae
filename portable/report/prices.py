"""Price and power of devices, from a table the user gives: CSV with a head, or JSON.

Columns: `device` (a name of the hardware database, or a device's name in the report),
`price_per_hour` and `power` [W]; either number may be missing. `currency` is free text. Without a
power the hardware database's TDP counts.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portable.device import DeviceSpec
from portable.errors import RecordError, UnknownNameError
from portable.report.weights import Weights

COLUMNS = ("device", "price_per_hour", "power", "currency")


@dataclass(frozen=True, slots=True)
class Price:
    """What an hour of a device costs and draws; None where it was not given."""

    device: str
    hardware: str
    per_hour: float | None = None
    power: float | None = None
    currency: str = ""


@dataclass(frozen=True, slots=True)
class Bill:
    """A workload on a device.

    Attributes:
        cost: price of one unit of the workload on all its devices; None without a price.
        cost_per_million_tokens: None without a price or tokens.
        energy: [J] at full power for the whole time: an upper bound; None without a power.
        currency: as in the table.
    """

    cost: float | None
    cost_per_million_tokens: float | None
    energy: float | None
    currency: str


def load(path: str | Path) -> list[Price]:
    """A table of prices.

    Raises:
        RecordError: the file cannot be read, or a line is not as it must be.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from None
    rows: Sequence[Any]
    if file.suffix == ".json":
        try:
            rows = json.loads(text)
        except ValueError as error:
            raise RecordError(f"{path} is no JSON: {error}") from None
    else:
        rows = list(csv.DictReader(text.splitlines()))
    if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
        raise RecordError(f"{path} has no list of rows with {', '.join(COLUMNS)}")
    return [_price(row, f"{path}, row {n}") for n, row in enumerate(rows, 1)]


def _price(row: Mapping[str, Any], where: str) -> Price:
    from portable import hwdb

    extra = sorted(str(k) for k in row if k not in COLUMNS)
    if extra or not row.get("device"):
        raise RecordError(
            f"{where}: "
            + (f"unknown columns {', '.join(extra)}; " if extra else "no device; ")
            + f"allowed are {', '.join(COLUMNS)}"
        )
    device = str(row["device"])
    try:
        hardware = hwdb.get(device).key
    except UnknownNameError:
        hardware = ""
    return Price(
        device, hardware, _number(row, "price_per_hour", where), _number(row, "power", where),
        str(row.get("currency") or ""),
    )  # fmt: skip


def _number(row: Mapping[str, Any], name: str, where: str) -> float | None:
    value = row.get(name)
    if value in (None, ""):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise RecordError(f"{where}: {name} is {value!r} (a number >= 0 is needed)")
    return number


def find(prices: Sequence[Price], label: str, spec: DeviceSpec | None) -> Price | None:
    """The price of a device, by its name in the report or its hardware entry."""
    key = spec.key if spec else ""
    return next((p for p in prices if p.device == label or (key and p.hardware == key)), None)


def bill(
    time: float, weights: Weights, prices: Sequence[Price], label: str, spec: DeviceSpec | None
) -> Bill:
    """Cost and energy of a unit of a workload that takes `time` [s] on each of its devices."""
    price = find(prices, label, spec)
    busy = time * weights.devices
    cost = price.per_hour * busy / 3600 if price and price.per_hour is not None else None
    power = price.power if price else None
    if power is None and spec is not None and spec.power > 0:
        power = spec.power
    return Bill(
        cost,
        cost / weights.tokens * 1e6 if cost is not None and weights.tokens else None,
        power * busy if power is not None else None,
        price.currency if price else "",
    )
