"""Kernel Tuner's T4 results (schema 1.0.0), read and written.

T4 has no place for the problem and the device. What we write carries the whole record beside the
standard fields, under "portable"; what others wrote needs a `Context` that says them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from portable import plain
from portable.errors import RecordError
from portable.records.files import Loaded, open_text
from portable.records.foreign import UNITS, Context, named_problem
from portable.records.record import Record

SCHEMA = "1.0.0"
MAX_BYTES = 1 << 30
STATUS = {
    "correct": "ok", "timeout": "hang", "compile": "compile_error", "runtime": "exception",
    "correctness": "incorrect", "constraints": "unsupported",
}  # fmt: skip
"""T4's "invalidity" -> our status."""
_INVALIDITY = {
    "ok": "correct", "bound_violated": "correct", "hang": "timeout", "crash": "runtime",
    "oom": "runtime", "exception": "runtime", "compile_error": "compile",
    "incorrect": "correctness", "unsupported": "constraints", "skipped": "constraints",
}  # fmt: skip


def write(path: str | Path, records: Iterable[Record]) -> int:
    """Write records as T4 results; how many. Times are in milliseconds, as Kernel Tuner's are."""
    results = [_result(record) for record in records]
    data = {"schema_version": SCHEMA, "metadata": {"timeunit": "miliseconds"}, "results": results}
    try:
        with open_text(path, "wt") as file:
            json.dump(data, file, separators=(",", ":"), allow_nan=False)
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error}") from None
    return len(results)


def _result(record: Record) -> dict[str, Any]:
    times: dict[str, Any] = {"runtimes": [1e3 * sample for sample in record.samples]}
    compile_time = record.details.get("compile_time")
    if isinstance(compile_time, float):
        times["compilation_time"] = 1e3 * compile_time
    measured = {"name": "time", "value": 1e3 * record.time, "unit": "ms"}
    failed = {"name": "time", "value": record.status, "unit": ""}
    return {
        "timestamp": record.created,
        "configuration": dict(record.config),
        "objectives": ["time"],
        "times": times,
        "invalidity": _INVALIDITY[record.status],
        "correctness": float(record.status in ("ok", "bound_violated")),
        "measurements": [measured if record.samples else failed],
        "portable": record.to_json(),
    }


def load(path: str | Path, context: Context | None = None) -> Loaded:
    """Records of a T4 file; entries that are none are listed by their number.

    Raises:
        RecordError: it is no T4 file; or its entries are not ours and no context is given.
    """
    loaded = Loaded()
    for number, result in enumerate(_results(path), 1):
        try:
            loaded.records.append(_record(result, context))
        except RecordError as error:
            loaded.errors.append((number, str(error)))
    return loaded


def _results(path: str | Path) -> list[Any]:
    try:
        with open_text(path) as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise RecordError(f"{path} has more than {MAX_BYTES} characters")
        data = json.loads(text)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("results"), list):
        raise RecordError(f'{path} is no T4 file (an object with a list "results" is needed)')
    return list(data["results"])


def _record(result: Any, context: Context | None) -> Record:
    if not isinstance(result, dict):
        raise RecordError(f"a result is a {type(result).__name__} (an object is needed)")
    if "portable" in result:
        return Record.from_json(plain.mapping(result, "portable"))
    if context is None:
        raise RecordError("T4 says neither problem nor device: name them (--op, --shape, --device)")
    invalidity = plain.text(result, "invalidity")
    status = STATUS[plain.one_of(invalidity, "invalidity", tuple(STATUS))]
    samples = _samples(result, context) if status == "ok" else ()
    return Record(
        problem=context.problem or named_problem("kernel_tuner", "unknown"),
        backend=context.backend,
        implementation=context.implementation,
        device=context.device_key(),
        config=plain.scalars(result, "configuration"),
        versions=context.versions,
        method="kernel_tuner",
        samples=samples,
        status=status,
        reason="" if status == "ok" else invalidity,
        created=_created(plain.text(result, "timestamp", "1970-01-01T00:00:00+00:00")),
    )


def _samples(result: dict[str, Any], context: Context) -> tuple[float, ...]:
    runtimes = plain.sequence(plain.mapping(result, "times"), "runtimes", plain.MAX_SAMPLES)
    if runtimes:
        return tuple(plain.number(t, "runtime") * UNITS["ms"] for t in runtimes)
    for measurement in plain.sequence(result, "measurements", plain.MAX_ITEMS):
        if isinstance(measurement, dict) and measurement.get("name") == "time":
            unit = UNITS.get(plain.text(measurement, "unit", ""), UNITS["ms"])
            return (plain.number(measurement.get("value"), "time") * unit,)
    raise RecordError("a correct result has neither runtimes nor a time")


def _created(text: str) -> str:
    return text.strip().replace(" ", "T", 1)
