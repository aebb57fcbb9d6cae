"""`portable crosscompile`: kernels for targets that are not here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
FAILED = 3
"""Exit code of --fail-on; 1 is a mistake in the call, 2 one in the options."""
SHOWN = 40
"""Failing rows that are listed."""


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
        str,
        typer.Option(
            help="exit 3 on findings of these kinds (spill,no-matrix-unit), or what does not build"
        ),
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

    kinds = cc.checked([kind.strip() for kind in fail_on.split(",") if kind.strip()])
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
    if kinds:
        _verdict(report, kinds)


def _verdict(report: Report, kinds: Sequence[str]) -> None:
    """Exit 3 when a row has a finding of the kinds, does not build, or when there is no row."""
    from portable import crosscompile as cc

    bad = cc.failures(report, kinds)
    for row, finding in bad[:SHOWN]:
        unit = row.unit
        what = " ".join(filter(None, (unit.backend, unit.op, unit.label, unit.kernel)))
        line = f"{finding.kind}: {what} for {row.target.name}: {finding.text}"
        console.print(escape(line), style="red", soft_wrap=True)
    if bad:
        more = f" ({len(bad) - SHOWN} of them not listed)" if len(bad) > SHOWN else ""
        console.print(f"{len(bad)} of {len(report.rows)} rows fail{more}: exit code {FAILED}")
        raise typer.Exit(FAILED)
    if not report.rows:
        console.print(f"nothing was built, so nothing was checked: exit code {FAILED}", style="red")
        raise typer.Exit(FAILED)
    console.print(f"{len(report.rows)} rows without {', '.join(kinds)}")


def _problems(workload: str | None) -> list[tuple[str, Problem]]:
    """The problems of a workload with short labels, largest weight first."""
    if workload is None:
        return []
    from portable.workloads import load, problems

    weighted = problems(load(workload), scale="full")
    return [(label_of(item.note, item.problem), item.problem) for item in weighted]


def label_of(note: str, problem: Problem) -> str:
    """ "mlp (x: bf16[8192x4096], ...)": the layer, and the problem without its op's name."""
    return f"{note} {str(problem).removeprefix(problem.op)}".strip()


def _show(report: Report, diff: tuple[str, str] | None, wide: bool) -> None:
    from portable import crosscompile as cc
    from portable.crosscompile import judge, show

    if diff:
        first, second = (cc.resolve(name).name for name in diff)
        found = cc.compare(report.rows, first, second, report.skipped)
        if found:
            console.print(show.differences(found, first, second))
        console.print(f"{first} -> {second}: {show.losses(found)}")
    elif report.rows:
        console.print(show.table(report, wide))
    console.print(escape(show.summary(report)))
    for reason in report.skipped:
        console.print(f"not tried: {escape(str(reason))}", style="dim")
    if not diff and any(row.roof_share is not None for row in report.rows):
        console.print(judge.ASSUMPTIONS, style="dim")
