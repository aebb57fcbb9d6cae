"""`portable workload …`: list, show, capture and replay what real models compute."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from portable import workloads
from portable.text import share as percent
from portable.text import time_text

app = typer.Typer(help="Workloads: weighted problems of real models.", no_args_is_help=True)
console = Console(highlight=False)

Name = Annotated[str, typer.Argument(help="name of a suite, or a workload file")]
Share = Annotated[float, typer.Option(help="share of the mapped time to cover")]
Limit = Annotated[int, typer.Option(help="problems at the most")]
Scale = Annotated[str, typer.Option(help="cpu (scaled for a small CPU) or full")]


@app.command("list")
def list_() -> None:
    """The suites that come with portable."""
    table = Table("name", "kind", "entries", "mapped", "a weight of 1 is", box=None)
    for name in workloads.names():
        suite = workloads.load(name)
        mapped = 1 - sum(workloads.unmapped(suite).values())
        count = str(len(suite.entries) + len(suite.unmapped))
        table.add_row(name, suite.kind, count, percent(mapped), escape(suite.weight_unit[:60]))
    console.print(table)


@app.command()
def show(name: Name, share: Share = 0.9, limit: Limit = 24, scale: Scale = "cpu") -> None:
    """The weightiest problems of a workload, its sources, and what has no op of ours."""
    suite = workloads.load(name)
    found = workloads.select(suite, share=share, limit=limit, scale=scale)
    console.print(f"{escape(suite.name)} ({suite.kind}); a weight of 1 is {suite.weight_unit}")
    for source in suite.source:
        console.print(f"  from {escape(source)}")
    table = Table("share", "weight", "problem", "note", box=None)
    for w in found.problems:
        note = f"{w.note} ({w.approx})" if w.approx else w.note
        table.add_row(percent(w.share), f"{w.weight:g}", escape(str(w.problem)), escape(note[:60]))
    console.print(table)
    _print_rest(found)


def _print_rest(found: workloads.Selection) -> None:
    text = f"{len(found.problems)} problems stand for {percent(found.share)} of the workload"
    console.print(f"{text}; {percent(found.left)} more are mapped")
    missing = ", ".join(f"{what} {percent(part)}" for what, part in found.unmapped.items())
    if missing:
        console.print(f"no op of ours: {escape(missing)}")


@app.command(context_settings={"ignore_unknown_options": True})
def capture(
    command: Annotated[list[str], typer.Argument(help="-- python app.py ..., or -- app.py ...")],
    out: Annotated[Path, typer.Option(help="workload file to write")] = Path("workload.jsonl"),
    name: Annotated[str, typer.Option(help="of the workload; default: of the program")] = "",
) -> None:
    """Run a Python program and write what it computes: our ops, and PyTorch's mapped onto them."""
    program = list(command)
    if Path(program[0]).name.startswith("python"):
        program = program[1:]
    if not program or (program[0].startswith("-") and program[0] != "-m"):
        raise typer.BadParameter(
            "a Python program is needed: -- python app.py, or -- python -m app"
        )
    if program == ["-m"]:
        raise typer.BadParameter("-m needs the name of a module")
    title = name or Path(program[1] if program[0] == "-m" else program[0]).stem
    runner = [sys.executable, "-m", "portable.workloads.capture_run", str(out.absolute()), title]
    done = subprocess.run([*runner, "--", *program], env=_environment())
    if out.is_file():
        found = workloads.select(workloads.load(str(out)), share=1.0, scale="full")
        console.print(f"{len(found.problems)} problems in {escape(str(out))}")
        _print_rest(found)
    if done.returncode:
        raise typer.Exit(done.returncode)


def _environment() -> dict[str, str]:
    """The child finds `portable` where we did, also when it is not installed."""
    root = str(Path(workloads.__file__).parent.parent.parent)
    path = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in (path, root) if p)}


@app.command()
def replay(
    name: Name,
    share: Share = 0.9,
    limit: Limit = 24,
    scale: Scale = "cpu",
    budget: Annotated[float, typer.Option(help="seconds per problem")] = 0.2,
) -> None:
    """Call a workload's problems with whatever portable chooses; what a unit of it takes."""
    from portable.workloads.replay import replay as run

    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("replay", total=None)

        def report(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=escape(what[:40]))

        done = run(
            workloads.load(name), scale=scale, share=share, limit=limit, budget=budget,
            progress=report,
        )  # fmt: skip
    table = Table("share", "weight", "problem", "ran on", "median", "of SOL", box=None)
    for row in done.rows:
        entry, sol = row.entry, row.sol
        part = percent(sol.time / row.time) if sol and sol.time <= row.time else "-"
        table.add_row(
            percent(entry.share), f"{entry.weight:g}", escape(str(entry.problem)), row.chosen,
            time_text(row.time), part,
        )  # fmt: skip
    console.print(table)
    least = f", at the speed of light {time_text(done.sol_time)}" if done.sol_time else ""
    console.print(f"one unit of the replayed part takes {time_text(done.time)}{least} (warm)")
    _print_rest(done.selection)
