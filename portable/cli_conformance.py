"""`portable conformance BACKEND`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

console = Console(highlight=False)


def add_to(app: typer.Typer) -> None:
    """Mount the command."""
    app.command()(conformance)


def conformance(
    backend: Annotated[str, typer.Argument(help="name, or one runtime: opencl[intel]")],
    op: Annotated[list[str] | None, typer.Option(help="only these ops; repeatable")] = None,
    level: Annotated[str, typer.Option(help="core, full or hostile")] = "core",
    report: Annotated[str | None, typer.Option(help="write the badge (JSON) here")] = None,
) -> None:
    """Run every case of a backend's ops against their error bounds; exit 1 when one fails."""
    from portable.cli_measure import progress_bar
    from portable.conformance import conform

    with progress_bar("conformance") as say:
        result = conform(backend, ops=op, level=level, progress=say)
    console.print(escape(str(result)), soft_wrap=True)
    if report is not None:
        Path(report).write_text(json.dumps(result.to_json(), indent=1) + "\n", encoding="utf-8")
        console.print(f"badge written to {escape(report)}")
    if not result.passed:
        raise typer.Exit(1)
