"""The command line: `portable ...`, also `python -m portable ...`."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from portable import spinning
from portable.errors import PortableError

app = typer.Typer(
    name="portable",
    help="One call, any array, the best kernel, and its distance from the speed of light.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
console = Console(highlight=False)

Dtype = Annotated[str, typer.Option("--dtype", help="dtype of the float operands")]
DeviceOption = Annotated[str, typer.Option("--device", help="device id, as doctor lists it")]
WorkloadOption = Annotated[
    str | None, typer.Option("--workload", help="name of a suite, or a workload file")
]


def main() -> None:
    """Entry point; the errors of `portable` are shown without a traceback."""
    spinning.shorten()
    for name, module in _GROUPS.items():
        app.add_typer(importlib.import_module(module).app, name=name)
    for module in _COMMANDS:
        importlib.import_module(module).add_to(app)
    try:
        app()
    except PortableError as error:
        Console(stderr=True, highlight=False).print(f"error: {escape(str(error))}", style="red")
        sys.exit(1)


_GROUPS = {
    "hw": "portable.cli_hw",
    "workload": "portable.cli_workload",
    "records": "portable.cli_records",
    "plugin": "portable.cli_plugin",
}
_COMMANDS = (
    "portable.cli_measure",
    "portable.cli_report",
    "portable.cli_crosscompile",
    "portable.cli_conformance",
)


@app.command()
def doctor() -> None:
    """Backends, devices, hardware entries, roofs; what is missing and the line that installs it."""
    import portable
    from portable.text import rate_text

    table = Table("backend", "", "path", "devices", "versions", "reason / to get it", box=None)
    for b in portable.backends():
        fix = b.reason + (f"\n{b.install}" if b.install else "")
        versions = " ".join(f"{k} {v}" for k, v in b.versions.items())
        mark = "[green]ok[/]" if b.available else "[yellow]--[/]"
        cells = (b.path, "\n".join(b.devices), versions, fix)
        table.add_row(b.name, mark, *map(escape, cells))
    console.print(table)
    console.print()
    for device in portable.devices():
        spec = device.spec
        if spec is None:
            console.print(
                f"{device.id}: {device.info.name!r} is not in the hardware database, so no speed "
                "of light; `portable hw find` says how to add it"
            )
        else:
            peaks = ", ".join(f"{k} {rate_text(v, 'FLOP/s')}" for k, v in spec.peaks.items())
            mark = f" (estimated: {', '.join(sorted(spec.estimated))})" if spec.estimated else ""
            console.print(f"{device.id}: {escape(spec.name)} [{escape(spec.key)}]{mark}")
            console.print(f"  datasheet: {rate_text(spec.bandwidth, 'B/s')}; {escape(peaks)}")
        console.print(f"  measured:  {escape(_roofs(device.roofs))}")


def _roofs(roofs: object) -> str:
    return str(roofs) if roofs is not None else "nothing yet: run `portable calibrate`"


@app.command("speed-of-light")
def speed_of_light(
    op: str,
    shapes: Annotated[list[str], typer.Argument(help="operand shapes, as 128x512")],
    dtype: Dtype = "float32",
    hardware: Annotated[list[str] | None, typer.Option(help="hardware names")] = None,
) -> None:
    """T_SOL of a problem, and what binds, on one or several devices of the database."""
    import portable
    from portable.text import time_text

    table = Table("hardware", "T_SOL", "bound by", "intensity FLOP/B", "ridge FLOP/B", "", box=None)
    for name in hardware or ["here"]:
        sol = portable.speed_of_light(op, *map(parse_shape, shapes), dtype=dtype, hardware=name)
        table.add_row(
            portable.hardware(name).name,
            time_text(sol.time),
            sol.bound_by,
            f"{sol.intensity:.4g}",
            f"{sol.ridge:.4g}",
            "estimated peaks" if sol.estimated else "",
        )
    console.print(table)


@app.command()
def explain(
    op: str,
    shapes: Annotated[list[str], typer.Argument(help="operand shapes, as 128x512")],
    dtype: Dtype = "float32",
    device: DeviceOption = "cpu",
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target", "--hardware",
            help="hardware that need not be here, gfx942 or 'H200 SXM': its speed of light, and "
            "what compilers make of the kernels for it; repeatable",
        ),
    ] = None,
    build: Annotated[
        bool, typer.Option("--build", help="compile what was not compiled for the targets before")
    ] = False,
) -> None:  # fmt: skip
    """Candidates, refusals, evidence and speed of light of a problem; nothing is run."""
    from portable import cases, explaining, registry

    found = registry.op(op)
    problem = cases.problem_of_shapes(found, [parse_shape(s) for s in shapes], dtype, {})
    told = explaining.of_problem(problem, device)
    if target:
        from portable.cli_measure import progress_bar
        from portable.crosscompile import elsewhere

        with progress_bar("build") as report:
            there = [elsewhere(problem, t, build=build, progress=report) for t in target]
        told = replace(told, elsewhere=tuple(there))
    console.print(escape(str(told)), soft_wrap=True)


def parse_shape(text: str) -> tuple[int, ...]:
    """ "128x512" -> (128, 512); "" or "scalar" -> ()."""
    if text in ("", "scalar"):
        return ()
    try:
        return tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no shape; write it as 128x512") from None


@app.command()
def version() -> None:
    """The version of portable and of what it runs on."""
    import portable

    console.print(f"portable {portable.__version__} ({Path(portable.__file__).parent})")


if __name__ == "__main__":
    main()
