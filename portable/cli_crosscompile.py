"""`portable crosscompile`: kernels for targets that are not here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from portable.cli_measure import progress_bar

if TYPE_CHECKING:
    from portable.crosscompile import Report
    from portable.op import Problem

console = Console(highlight=False, width=None if sys.stdout.isatty() else 240)

Names = list[str] | None


def add_to(app: typer.Typer) -> None:
    """Mount the command."""
    app.command()(crosscompile)


def crosscompile(
    backend: Annotated[Names, typer.Option(help="backends; all that can, by default")] = None,
    op: Annotated[Names, typer.Option(help="ops; all by default")] = None,
    target: Annotated[
        Names, typer.Option(help="architectures or devices of the database; 11 by default")
    ] = None,
    workload: Annotated[
        str | None, typer.Option(help="take the problems of a suite or a workload file")
    ] = None,
    every_config: Annotated[
        bool, typer.Option("--every-config", help="all configs, not only the first guess")
    ] = False,
    diff: Annotated[
        tuple[str, str] | None, typer.Option(help="what the second target loses to the first")
    ] = None,
    fail_on: Annotated[
        str, typer.Option(help="exit 1 on findings of these kinds: spill,no-matrix-unit")
    ] = "",
    source: Annotated[
        str | None, typer.Option(help="someone else's kernel: file.py::kernel or file.cu")
    ] = None,
    signature: Annotated[
        str, typer.Option(help="its arguments and constants: 'x: *fp16, n: i32, BLOCK = 128'")
    ] = "",
    json: Annotated[Path | None, typer.Option(help="write all rows, logs included")] = None,
    markdown: Annotated[Path | None, typer.Option(help="write the table as Markdown")] = None,
    jobs: Annotated[int, typer.Option(help="worker processes; CPUs by default")] = 0,
    timeout: Annotated[float, typer.Option(help="seconds for one build")] = 180.0,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="build everything anew")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="all columns")] = False,
) -> None:
    """Build kernels for targets without their hardware; registers, spills, matrix units, verdict.

    --source imports a Python file in a child process: only files you trust.
    """
    from portable import crosscompile as cc
    from portable.crosscompile import show

    targets = [*(target or ()), *(diff or ())] if target or diff else []
    common: dict[str, Any] = {
        "targets": list(dict.fromkeys(targets)), "jobs": jobs, "timeout": timeout,
        "use_cache": not no_cache,
    }  # fmt: skip
    with progress_bar("crosscompile") as progress:
        if source:
            report = cc.crosscompile_source(source, signature, progress=progress, **common)
        else:
            report = cc.crosscompile(
                backends=backend or (), ops=op or (), problems=_problems(workload),
                every_config=every_config, progress=progress, **common,
            )  # fmt: skip
    _show(report, diff, wide)
    if json:
        show.write_json(report, json)
    if markdown:
        markdown.write_text(show.markdown(report), encoding="utf-8")
    bad = cc.failures(report, [kind for kind in fail_on.split(",") if kind])
    if bad:
        console.print(f"[red]{len(bad)} rows have findings of {escape(fail_on)}[/]")
        sys.exit(1)


def _problems(workload: str | None) -> list[tuple[str, Problem]]:
    """The problems of a workload with short labels, largest weight first."""
    if workload is None:
        return []
    from portable.workloads import load, problems

    weighted = problems(load(workload), scale="full")
    return [(str(item.problem), item.problem) for item in weighted]


def _show(report: Report, diff: tuple[str, str] | None, wide: bool) -> None:
    from portable import crosscompile as cc
    from portable.crosscompile import judge, show

    if diff:
        first, second = (cc.resolve(name).name for name in diff)
        found = cc.compare(report.rows, first, second)
        console.print(show.differences(found, first, second))
        console.print(f"{len(found)} losses")
    else:
        console.print(show.table(report, wide))
    console.print(escape(show.summary(report)))
    for reason in report.skipped:
        console.print(f"not tried: {escape(reason)}", style="dim")
    console.print(judge.ASSUMPTIONS, style="dim")
