"""Commands that measure: calibrate, bench, tune."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

console = Console(highlight=False)
Report = Callable[[int, int, str], None]

WorkloadOption = Annotated[
    list[str] | None, typer.Option("--workload", help="suite or workload file; repeatable")
]
DeviceOption = Annotated[str, typer.Option("--device", help="device id, as doctor lists it")]


def add_to(app: typer.Typer) -> None:
    """Mount the commands."""
    app.command()(calibrate)
    app.command()(bench)
    app.command()(tune)


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Report]:
    """A bar that shows what is being done; yields report(done, total, what)."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None)

        def report(done: int, total: int, what: str) -> None:
            progress.update(
                task, completed=done, total=total, description=f"{title} {escape(what)[:60]}"
            )

        yield report


def calibrate(
    device: DeviceOption = "cpu",
    probes: Annotated[bool, typer.Option(help="also time the small probe set")] = True,
    budget: Annotated[float, typer.Option(help="seconds for everything")] = 50.0,
) -> None:
    """Measure this machine's roofs and a small probe set: later choices rest on them."""
    from portable import calibrate as calibration

    with progress_bar("calibrate") as report:
        done = calibration.calibrate(device, probes=probes, budget=budget, progress=report)
    console.print(escape(str(done)), soft_wrap=True)


def bench(
    workload: WorkloadOption = None,
    op: Annotated[list[str] | None, typer.Option(help="only these ops; repeatable")] = None,
    device: DeviceOption = "cpu",
    backend: Annotated[list[str] | None, typer.Option(help="only these; repeatable")] = None,
    out: Annotated[str, typer.Option(help="record file, JSON lines")] = "records.jsonl",
    share: Annotated[float, typer.Option(help="share of a workload's time to cover")] = 0.9,
    limit: Annotated[int, typer.Option(help="problems per workload at the most")] = 24,
    budget: Annotated[float, typer.Option(help="seconds per problem")] = 1.5,
    scale: Annotated[str, typer.Option(help="cpu (scaled for a small CPU) or full")] = "cpu",
) -> None:
    """Time every eligible backend on workloads; print times, SOL and roof shares; keep records."""
    from portable import benching

    names = workload or ["llama3.1-8b", "bert-base"]
    with progress_bar("bench") as report:
        done = benching.bench(
            names, ops=op, device=device, backends=backend, share=share, limit=limit,
            budget=budget, scale=scale, progress=report,
        )  # fmt: skip
    for name, result in done.items():
        console.print(benching.table(name, result), soft_wrap=True)
    count = benching.write(out, done.values())
    console.print(f"{count} records in {escape(out)}; `portable report {escape(out)}` reads them")


def tune(
    workload: WorkloadOption = None,
    device: DeviceOption = "cpu",
    budget: Annotated[str, typer.Option(help="time box: 60s, 5m")] = "60s",
    freeze: Annotated[str | None, typer.Option(help="write the choices to this file")] = None,
    seed: Annotated[int, typer.Option(help="of the order of trials")] = 0,
) -> None:
    """Measure a workload's candidates and configs where its time is; remember the best."""
    from portable import tuning

    names = workload or ["llama3.1-8b", "bert-base"]
    with progress_bar("tune") as report:
        done = tuning.tune_workloads(
            names, device=device, budget=parse_seconds(budget), seed=seed, progress=report
        )
    table = Table("problem", "chosen", "time", "was", "", box=None)
    for row in done.rows():
        table.add_row(*map(escape, row))
    console.print(table)
    console.print(done.summary())
    if freeze is not None:
        console.print(f"{done.freeze(freeze)} choices frozen in {escape(freeze)}")


def parse_seconds(text: str) -> float:
    """ "90s", "5m", "1.5h" or plain seconds."""
    scale = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:])
    try:
        return float(text[:-1]) * scale if scale else float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time; write 90s, 5m or 1h") from None
