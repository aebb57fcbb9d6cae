"""`portable report`: record files into tables, pages and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from portable.port_cost import PortCost
    from portable.records import Record
    from portable.report import Weights

console = Console(highlight=False)

REGRESSED = 3
"""Exit code of --fail-on-regression when something became slower or broke."""


def add_to(app: typer.Typer) -> None:
    """Mount the command."""
    app.command()(report)


def report(
    records: Annotated[
        list[str] | None,
        typer.Argument(help="record files (.jsonl, .jsonl.gz) or stores (.db); default: own store"),
    ] = None,
    workload: Annotated[
        list[str] | None, typer.Option("--workload", help="suite or workload file; repeatable")
    ] = None,
    scale: Annotated[str, typer.Option(help="scale of the workload: cpu or full")] = "cpu",
    html: Annotated[str | None, typer.Option(help="write one self-contained page")] = None,
    csv: Annotated[str | None, typer.Option(help="write the rows as CSV")] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", help="write everything as JSON")
    ] = None,
    markdown: Annotated[
        str | None, typer.Option("--markdown", "--md", help="write Markdown")
    ] = None,
    baseline: Annotated[
        list[str] | None, typer.Option(help="older record file to compare with; repeatable")
    ] = None,
    tolerance: Annotated[float, typer.Option(help="slow-down that never counts")] = 0.05,
    fail_on_regression: Annotated[
        bool, typer.Option(help="exit with code 3 when something became slower or broke")
    ] = False,
    hardware: Annotated[
        list[str] | None, typer.Option(help="project onto this hardware entry; repeatable")
    ] = None,
    platform: Annotated[
        list[str] | None,
        typer.Option(
            help="member of H for performance portability: DEVICE or DEVICE/ROUTE; repeatable; "
            "default: everything measured"
        ),
    ] = None,
    platform_by: Annotated[
        str,
        typer.Option(help="what a platform is: a device by a route, or a device (route|device)"),
    ] = "route",
    prices: Annotated[
        str | None, typer.Option(help="table of device, price_per_hour, power (CSV or JSON)")
    ] = None,
    crosscompile: Annotated[
        str | None, typer.Option(help="JSON of `portable crosscompile`, shown as tables")
    ] = None,
    port_cost: Annotated[
        str | None,
        typer.Option(help="what the ports cost: JSON of a report's port_cost, or 'count'"),
    ] = None,
    title: Annotated[str, typer.Option(help="title")] = "Porting gaps and speed of light",
    quiet: Annotated[bool, typer.Option(help="write files only")] = False,
) -> None:
    """Porting gaps, speed of light, rankings, portability and regressions of record files."""
    from portable import report as reports
    from portable.report import prices as price_tables

    found, notes = read(records or [])
    older = read(baseline)[0] if baseline else None
    made = reports.build(
        found,
        workloads=[weights_of(name, scale) for name in workload or []],
        hardware=hardware or [],
        platforms=platform or None,
        platform_by=platform_by,
        prices=price_tables.load(prices) if prices else [],
        baseline=older,
        tolerance=tolerance,
        crosscompile=read_json(crosscompile) if crosscompile else None,
        port_cost=port_cost_of(port_cost) if port_cost else None,
        title=title,
        sources=[Path(name).name for name in records or []] or ["the record store"],
        notes=notes,
    )
    if not quiet:
        reports.show(made, console)
    writers = (
        (html, reports.write_html), (csv, reports.write_csv), (json_file, reports.write_json),
        (markdown, reports.write_markdown),
    )  # fmt: skip
    for path, write in writers:
        if path:
            write(made, path)
            console.print(f"{escape(path)} is written ({Path(path).stat().st_size:,} bytes)")
    if fail_on_regression:
        if made.changes is None:
            raise typer.BadParameter("--fail-on-regression needs --baseline")
        if made.regressions:
            console.print(f"{len(made.regressions)} regressions: exit code {REGRESSED}")
            raise typer.Exit(REGRESSED)


def read(paths: list[str]) -> tuple[list[Record], list[str]]:
    """Records of files and stores (without any: of the user's store), and notes on bad lines.

    Raises:
        RecordError: a file cannot be read.
    """
    from portable.errors import RecordError
    from portable.records import Store, default_store
    from portable.records.files import load_jsonl

    if not paths:
        return default_store().records(), []
    found: list[Record] = []
    notes: list[str] = []
    for path in paths:
        if not Path(path).is_file():
            raise RecordError(f"{path} is no file; give record files as `portable bench` writes")
        if Path(path).suffix in (".db", ".sqlite"):
            found += Store(path).records()
            continue
        loaded = load_jsonl(path)
        found += loaded.records
        notes += [f"{path}, line {number} was left out: {why}" for number, why in loaded.errors]
    for note in notes[:5]:
        console.print(f"[yellow]{escape(note)}[/]")
    return found, notes


def weights_of(name: str, scale: str = "cpu") -> Weights:
    """Weights of a whole workload, by name of a suite or by file."""
    from portable import workloads
    from portable.report import from_selection

    loaded = workloads.load(name)
    return from_selection(loaded, workloads.select(loaded, share=1.0, scale=scale))


def port_cost_of(name: str) -> PortCost:
    """Counted in this installation, or of another report's JSON.

    Raises:
        RecordError: the file cannot be read or holds none.
    """
    from portable import port_cost
    from portable.errors import RecordError

    if name == "count":
        return port_cost.counted()
    data = read_json(name)
    cost = data.get("port_cost") if isinstance(data, dict) else None
    if not isinstance(cost, dict):
        write = "portable report --port-cost count --json F"
        raise RecordError(f"{name} has no port_cost (`{write}` writes one)")
    return port_cost.PortCost.from_json(cost)


def read_json(path: str) -> Any:
    """JSON of a file.

    Raises:
        RecordError: it cannot be read.
    """
    from portable.errors import RecordError

    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from None
