"""Record files: JSON lines, one record per line. Reading is data only, with limits per line.

A file may end in `.gz`. A line that is no record is reported with its number and reason; the other
lines still count.
"""

from __future__ import annotations

import gzip
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from portable import plain
from portable.errors import RecordError
from portable.records.record import Record

MAX_LINES = 5_000_000
MAX_ERRORS = 1000
"""Bad lines that are listed; a file with more is given up."""


@dataclass(slots=True)
class Loaded:
    """What a file holds.

    Attributes:
        records: the good lines, in order.
        errors: (line number, reason) of the others.
    """

    records: list[Record] = field(default_factory=list)
    errors: list[tuple[int, str]] = field(default_factory=list)


def load_jsonl(path: str | Path) -> Loaded:
    """All records of a file, and what is wrong with the lines that are none.

    Raises:
        RecordError: the file cannot be read at all, or has more than MAX_ERRORS bad lines.
    """
    loaded = Loaded()
    try:
        with open_text(path) as file:
            for number, line in _lines(file, str(path)):
                _take(loaded, number, line)
                if len(loaded.errors) > MAX_ERRORS:
                    _, reason = loaded.errors[0]
                    raise RecordError(
                        f"{path} is no record file: {MAX_ERRORS} bad lines ({reason})"
                    )
    except (OSError, EOFError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from None
    return loaded


def read_jsonl(path: str | Path) -> list[Record]:
    """All records of a file.

    Raises:
        RecordError: the file cannot be read, or a line is no record; says which line.
    """
    loaded = load_jsonl(path)
    if loaded.errors:
        number, reason = loaded.errors[0]
        more = len(loaded.errors) - 1
        others = f" (and {more} more lines)" if more else ""
        raise RecordError(f"{path}, line {number}: {reason}{others}")
    return loaded.records


def write_jsonl(path: str | Path, records: Iterable[Record]) -> int:
    """Write records, one per line; how many. The file appears whole or not at all."""
    target = Path(path)
    part = target.with_name(f".{target.name}.part")
    count = 0
    try:
        with open_text(part, "wt", packed=target.suffix == ".gz") as file:
            for record in records:
                file.write(plain.dump(record.to_json()) + "\n")
                count += 1
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RecordError(f"{path} cannot be written: {error}") from None
    return count


def merge(paths: Sequence[str | Path]) -> list[Record]:
    """The records of several files, each once, by time of creation.

    Raises:
        RecordError: as `read_jsonl`.
    """
    unique: dict[str, Record] = {}
    for path in paths:
        for record in read_jsonl(path):
            unique.setdefault(record.digest, record)
    return sorted(unique.values(), key=lambda r: r.created)


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts over records, for people.

    Attributes:
        records: how many.
        duplicates: how many of them are there more than once.
        status, ops, backends, devices, machines: counts by name.
        first, last: the earliest and the latest time of creation.
    """

    records: int
    duplicates: int
    status: dict[str, int]
    ops: dict[str, int]
    backends: dict[str, int]
    devices: dict[str, int]
    machines: dict[str, int]
    first: str
    last: str


def summarize(records: Sequence[Record]) -> Summary:
    """Counts over records."""
    created = sorted(r.created for r in records)
    return Summary(
        records=len(records),
        duplicates=len(records) - len({r.digest for r in records}),
        status=_counts(r.status for r in records),
        ops=_counts(r.problem.op for r in records),
        backends=_counts(r.backend for r in records),
        devices=_counts(r.device.name for r in records),
        machines=_counts(r.machine for r in records),
        first=created[0] if created else "",
        last=created[-1] if created else "",
    )


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(Counter(names).most_common())


def open_text(path: str | Path, mode: str = "rt", packed: bool | None = None) -> IO[str]:
    """A text file, unpacked when it is gzip."""
    if Path(path).suffix == ".gz" if packed is None else packed:
        return gzip.open(path, mode, encoding="utf-8")  # type: ignore[return-value]
    return Path(path).open(mode.replace("t", ""), encoding="utf-8")


def _lines(file: IO[str], name: str) -> Iterator[tuple[int, str | None]]:
    """(number, line); None for a line that is too long or not UTF-8."""
    for number in itertools.count(1):
        if number > MAX_LINES:
            raise RecordError(f"{name} has more than {MAX_LINES} lines")
        try:
            line = file.readline(plain.MAX_LINE + 1)
        except UnicodeDecodeError:
            raise RecordError(f"{name} is no text file (line {number} is not UTF-8)") from None
        if not line:
            return
        if len(line) > plain.MAX_LINE:
            yield number, None
            while line and not line.endswith("\n"):
                line = file.readline(plain.MAX_LINE)
        elif line.strip():
            yield number, line


def _take(loaded: Loaded, number: int, line: str | None) -> None:
    if line is None:
        loaded.errors.append((number, f"longer than {plain.MAX_LINE} characters"))
        return
    try:
        loaded.records.append(Record.from_json(plain.parse(line)))
    except RecordError as error:
        loaded.errors.append((number, str(error)))
