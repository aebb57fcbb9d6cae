"""The long table of Intel's P3 Analysis Library, read and written as CSV.

Columns: problem, application, platform, fom (here: seconds, lower is better; empty: did not run),
date. A last column, "portable", holds the whole record; other tools ignore it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from pathlib import Path

from portable import plain
from portable.errors import RecordError
from portable.records.files import Loaded, open_text
from portable.records.foreign import UNITS, Context, named_problem
from portable.records.record import Record, utc_now

COLUMNS = ("problem", "application", "platform", "fom", "date", "portable")


def write(path: str | Path, records: Iterable[Record]) -> int:
    """Write records as a P3 table; how many rows."""
    count = 0
    try:
        with open_text(path, "wt") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(COLUMNS)
            for r in records:
                fom = repr(r.time) if r.ok else ""
                application = f"{r.backend}[{r.runtime}]" if r.runtime else r.backend
                whole = plain.dump(r.to_json())
                table.writerow([str(r.problem), application, r.device.name, fom, r.created, whole])
                count += 1
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error}") from None
    return count


def load(path: str | Path, context: Context | None = None) -> Loaded:
    """Records of a P3 table; rows that are none are listed by their line.

    A row of another tool becomes a record of a problem of which only the name is known. Its fom
    must be a time, lower is better, in the context's unit; 0 and NaN mean that it did not run.

    Raises:
        RecordError: it is no such table.
    """
    loaded = Loaded()
    csv.field_size_limit(plain.MAX_LINE)
    try:
        with open_text(path) as file:
            table = csv.DictReader(file)
            missing = {"problem", "application", "platform", "fom"} - set(table.fieldnames or ())
            if missing:
                raise RecordError(f"{path} is no P3 table: no column {', '.join(sorted(missing))}")
            for row in table:
                try:
                    loaded.records.append(_record(row, context or Context()))
                except RecordError as error:
                    loaded.errors.append((table.line_num, str(error)))
    except (OSError, EOFError, csv.Error, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from None
    return loaded


def _record(row: dict[str, str | None], context: Context) -> Record:
    if row.get("portable"):
        return Record.from_json(plain.parse(row["portable"] or ""))
    given = {name: (row.get(name) or "").strip() for name in COLUMNS}
    fom = _fom(given["fom"])
    ran = fom is not None
    return Record(
        problem=context.problem or named_problem("p3", given["problem"]),
        backend=given["application"] or context.backend,
        implementation=context.implementation,
        device=context.device_key(given["platform"]),
        versions=context.versions,
        method="p3",
        samples=(fom * UNITS[context.unit],) if fom is not None else (),
        status="ok" if ran else "skipped",
        reason="" if ran else "the table has no figure of merit",
        created=given["date"] or utc_now(),
    )


def _fom(text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise RecordError(f"fom is {text!r} (a number is needed)") from None
    if math.isnan(value) or value == 0:
        return None
    if not (math.isfinite(value) and value > 0):
        raise RecordError(f"fom is {text!r} (a time > 0 is needed)")
    return value
