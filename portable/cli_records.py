"""`portable records …`: import, export, merge and check measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from portable.errors import ArgumentError

if TYPE_CHECKING:
    from portable.op import Problem
    from portable.records import Loaded, Record
    from portable.records.foreign import Context

app = typer.Typer(help="Measurements: import, export, merge, check.", no_args_is_help=True)
console = Console(highlight=False, soft_wrap=True)

FORMATS = ("jsonl", "t4", "p3", "flashinfer")
Format = Annotated[
    str, typer.Option("--format", help="jsonl, t4 (Kernel Tuner), p3 (CSV), flashinfer (folder)")
]
Files = Annotated[list[Path], typer.Argument(help="record files")]


@app.command("import")
def import_(
    files: Files,
    format: Format = "",
    op: Annotated[str, typer.Option(help="op of a T4 file, which does not say it")] = "",
    shape: Annotated[list[str] | None, typer.Option(help="of its operands: 512x512")] = None,
    dtype: Annotated[str, typer.Option(help="of its operands")] = "float32",
    device: Annotated[str, typer.Option(help="device of a T4 file, as its driver names it")] = "",
    backend: Annotated[str, typer.Option(help="backend of a T4 file")] = "imported",
    unit: Annotated[str, typer.Option(help="of times in a P3 table: s, ms, us, ns")] = "s",
) -> None:
    """Add the records of files to the store. Data only; bad entries are listed and left out."""
    from portable import records
    from portable.records.foreign import UNITS, Context

    if unit not in UNITS:
        raise typer.BadParameter(f"unit is {unit!r} ({', '.join(UNITS)})")
    context = None
    if op or device or unit != "s":
        context = Context(_problem(op, shape or [], dtype), device, backend, unit=unit)
    store, bad = records.default_store(), 0
    for path in files:
        loaded = _load(path, format or guess(path), context)
        new = store.add(loaded.records)
        bad += _complain(path, loaded.errors)
        console.print(f"{escape(str(path))}: {len(loaded.records)} records, {new} of them new")
    if bad:
        raise typer.Exit(1)


@app.command()
def export(
    out: Annotated[Path, typer.Argument(help="file, or folder for flashinfer")],
    format: Format = "",
    op: Annotated[str | None, typer.Option(help="only this op")] = None,
    device: Annotated[str | None, typer.Option(help="only this device (driver's name)")] = None,
    backend: Annotated[str | None, typer.Option(help="only this backend")] = None,
    status: Annotated[str | None, typer.Option(help="only this status, such as ok")] = None,
) -> None:
    """Write the records of the store to a file."""
    from portable import records

    found = records.default_store().records(op, device, backend, status)
    count = _save(out, format or guess(out), found)
    console.print(f"{count} records in {escape(str(out))}")
    if count < len(found):
        console.print(
            f"{len(found) - count} records have no place in this format and were left out"
        )


@app.command()
def merge(out: Annotated[Path, typer.Argument(help="file to write")], files: Files) -> None:
    """Join record files of several machines; each record once."""
    from portable import records

    found = records.merge(files)
    count = records.write_jsonl(out, found)
    console.print(f"{count} records of {len(files)} files in {escape(str(out))}")


@app.command()
def check(
    files: Annotated[
        list[Path] | None, typer.Argument(help="record files; none: the store")
    ] = None,
) -> None:
    """Count records, list what cannot be read, and say how many still hold on this machine."""
    from portable import records

    store, bad = records.default_store(), 0
    if not files:
        _describe(store.records(), str(store.path or store.location))
        bad += _complain(Path(store.location), list(store.skipped.items()))
    for path in files or []:
        loaded = _load(path, guess(path), None)
        _describe(loaded.records, str(path))
        bad += _complain(path, loaded.errors)
    if bad:
        raise typer.Exit(1)


def guess(path: Path) -> str:
    """The format that a file's name stands for."""
    name = path.name.removesuffix(".gz")
    if path.is_dir():
        return "flashinfer"
    if name.endswith(".csv"):
        return "p3"
    return "t4" if name.endswith(".json") else "jsonl"


def _load(path: Path, format: str, context: Context | None) -> Loaded:
    from portable import records
    from portable.records import p3, t4
    from portable.workloads import flashinfer

    if format == "jsonl":
        return records.load_jsonl(path)
    if format == "flashinfer":
        return flashinfer.load_records(path)
    _known(format)
    return t4.load(path, context) if format == "t4" else p3.load(path, context)


def _save(path: Path, format: str, found: Sequence[Record]) -> int:
    from portable import records
    from portable.records import p3, t4
    from portable.workloads import flashinfer

    if format == "jsonl":
        return records.write_jsonl(path, found)
    if format == "flashinfer":
        return flashinfer.write_records(path, found)
    _known(format)
    return t4.write(path, found) if format == "t4" else p3.write(path, found)


def _known(format: str) -> None:
    if format not in FORMATS:
        raise typer.BadParameter(f"format is {format!r} ({', '.join(FORMATS)})")


def _problem(op: str, shapes: Sequence[str], dtype: str) -> Problem | None:
    """The problem of an op of ours, or of a foreign op with operands x0, x1 ..."""
    from portable import cases, dtypes, registry
    from portable.op import Problem, TensorSpec

    if not op:
        return None
    try:
        sizes = [tuple(int(n) for n in shape.split("x")) for shape in shapes]
    except ValueError:
        raise typer.BadParameter(f"shapes are {list(shapes)} (such as 512x512)") from None
    if op in registry.op_names():
        return cases.problem_of_shapes(registry.op(op), sizes, dtype, {})
    tensors = tuple(TensorSpec(size, dtypes.canonical(dtype)) for size in sizes or [()])
    names = tuple(f"x{i}" for i in range(len(tensors)))
    return Problem(op, 0, names, tensors, (), tensors[:1])


def _complain(path: Path, errors: Sequence[tuple[int, str]]) -> int:
    for number, reason in errors[:10]:
        console.print(f"{escape(str(path))}, entry {number}: {escape(reason)}", style="yellow")
    if len(errors) > 10:
        console.print(f"... and {len(errors) - 10} more", style="yellow")
    return len(errors)


def _describe(found: Sequence[Record], name: str) -> None:
    from portable import records

    summary = records.summarize(found)
    console.print(f"{escape(name)}: {summary.records} records, {summary.duplicates} duplicates")
    for label in ("status", "ops", "backends", "devices", "machines"):
        counts = ", ".join(f"{k or '-'} {n}" for k, n in getattr(summary, label).items())
        console.print(f"  {label:9}{escape(counts)}")
    if found:
        console.print(f"  from {summary.first} to {summary.last}")
        reasons = _stale(found)
        console.print(f"  {summary.records - sum(reasons.values())} hold on this machine now")
        for reason, count in reasons.most_common(5):
            console.print(f"  {count} do not: {escape(reason)}")


def _stale(found: Sequence[Record]) -> Counter[str]:
    from portable import evidence

    reasons: Counter[str] = Counter()
    for record in found:
        try:
            reason = evidence.why_stale(record)
        except ArgumentError as error:
            reason = str(error)
        if reason is not None:
            reasons[reason[:100]] += 1
    return reasons
