"""`portable hw …`: list, show, find and audit the hardware database."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from portable import hwdb, registry
from portable.device import DeviceInfo, DeviceSpec
from portable.errors import DTypeError, PortableError, UnknownNameError
from portable.hwdb.audit import audit as run_audit
from portable.hwdb.tables import audit_rows, read_rows

app = typer.Typer(help="The hardware database.", no_args_is_help=True)


@app.callback()
def _with_plugins() -> None:
    """The hardware database."""
    registry.registered()  # plugins may bring entries


SORTS = ("name", "vendor", "year", "bandwidth", "memory", "power", "peak", "ridge")
_COLUMNS = (
    "float64/vector",
    "float32/vector",
    "bfloat16/matrix",
    "float8_e4m3fn/matrix",
    "int8/matrix",
)


def rows(
    *,
    vendor: str = "",
    kind: str = "",
    arch: str = "",
    dtype: str = "bfloat16",
    sort: str = "vendor",
) -> list[DeviceSpec]:
    """Entries that pass the filters, sorted; numbers sort from high to low.

    Raises:
        ValueError: an unknown order; says which there are.
    """
    if sort not in SORTS:
        raise ValueError(f"unknown order {sort!r}; allowed: {', '.join(SORTS)}")
    found = [
        s for s in hwdb.all_specs()
        if vendor.casefold() in s.vendor.casefold()
        and kind.casefold() in s.kind.casefold()
        and arch.casefold() in s.architecture.casefold()
    ]  # fmt: skip
    keys: dict[str, Any] = {
        "name": lambda s: s.name.casefold(),
        "vendor": lambda s: (s.vendor.casefold(), s.year, s.key),
        "year": lambda s: (s.year, s.key),
        "bandwidth": lambda s: -s.bandwidth,
        "memory": lambda s: -s.memory_size,
        "power": lambda s: -s.power,
        "peak": lambda s: -peak_or_zero(s, dtype),
        "ridge": lambda s: -peak_or_zero(s, dtype) / s.bandwidth if s.bandwidth else 0.0,
    }
    return sorted(found, key=keys[sort])


def peak_or_zero(spec: DeviceSpec, dtype: str, unit: str = "matrix") -> float:
    """The peak, or 0.0 where the device has none for the dtype."""
    try:
        return spec.peak(dtype, unit)
    except DTypeError:
        return 0.0


def as_dict(spec: DeviceSpec) -> dict[str, Any]:
    """A spec as plain JSON data."""
    data = dataclasses.asdict(spec)
    data["estimated"] = sorted(spec.estimated)
    data["ridge"] = {k: v / spec.bandwidth for k, v in spec.peaks.items()} if spec.bandwidth else {}
    return data


def machine(everything: bool = False) -> list[tuple[str, DeviceInfo]]:
    """Reader and DeviceInfo of this machine's devices; `everything` asks torch, CuPy, JAX too."""
    from portable.hwdb import live

    asked = live.READERS if everything else {name: live.READERS[name] for name in live.QUICK}
    return [(name, info) for name, read in asked.items() for info in read()]


def lookup(name: str, **known: Any) -> DeviceInfo:
    """DeviceInfo for a string typed by a person.

    A name that is this machine's processor stands for it, with all that detection sees: a masked
    name ("AMD EPYC") alone says nothing. Else a processor that the database lists by model, else
    a GPU or accelerator.
    """
    from portable.hwdb.detect import cpu_info

    here = cpu_info()
    if name.casefold() == here.name.casefold() and not any(known.values()):
        return here
    told = {k: v for k, v in known.items() if v}
    processor = DeviceInfo(name, kind="cpu", **told)
    return processor if hwdb.find(processor) else DeviceInfo(name, **told)


def print_spec(spec: DeviceSpec) -> None:
    """Prints everything about a device, for people."""
    flag = f"  [estimated: {', '.join(sorted(spec.estimated))}]" if spec.estimated else ""
    print(f"{spec.name}  ({spec.key}){flag}")
    print(f"  {spec.vendor} {spec.kind}, {spec.architecture}, {spec.year or 'year unknown'}, "
          f"confidence {spec.confidence}")  # fmt: skip
    clocks = f"{spec.clock / 1e6:.0f} MHz" if spec.clock else "clock not published"
    matrix = f", matrix unit {spec.matrix_clock / 1e6:.0f} MHz" if spec.matrix_clock else ""
    units = f"{spec.units or 'unknown number of'} unit{'' if spec.units == 1 else 's'}"
    print(f"  {units}, {clocks}{matrix}")
    if spec.granularity:
        print(f"  {spec.granularity}")
    size = (
        f"{spec.memory_size / 1e9:.1f} GB"
        if spec.memory_size
        else ("as installed" if spec.kind == "cpu" else "of unknown size")
    )
    print(f"  memory {size}, {spec.bandwidth / 1e9:.1f} GB/s")
    if spec.power:
        print(f"  power {spec.power:.0f} W")
    if spec.peaks:
        print(f"  dense peaks ({spec.accumulate})")
    for kind, peak in spec.peaks.items():
        mark = " ~" if f"peaks.{kind}" in spec.estimated or "peaks" in spec.estimated else ""
        ridge = f"  ridge {peak / spec.bandwidth:8.1f} FLOP/B" if spec.bandwidth else ""
        print(f"    {kind:32s} {peak / 1e12:10.3f} T/s{ridge}{mark}")
    for title, table in (("caches [B]", spec.caches), ("limits of one unit", spec.limits),
                         ("measured by others", spec.measured), ("links [B/s]", spec.interconnect),
                         ("sources", spec.sources)):  # fmt: skip
        if table:
            print(f"  {title}")
            for name, value in table.items():
                print(
                    f"    {name}: {value:.6g}"
                    if isinstance(value, float)
                    else f"    {name}: {value}"
                )
    for note in spec.notes:
        print(f"  - {note}")


@app.command("list")
def list_command(
    vendor: Annotated[str, typer.Option(help="Part of the maker's name.")] = "",
    kind: Annotated[str, typer.Option(help="cpu, gpu or accelerator.")] = "",
    arch: Annotated[str, typer.Option(help="Part of the architecture: sm_90, gfx942, zen5.")] = "",
    dtype: Annotated[
        str, typer.Option(help="Data type that --sort peak and ridge use.")
    ] = "bfloat16",
    sort: Annotated[str, typer.Option(help=f"One of {', '.join(SORTS)}.")] = "vendor",
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
) -> None:
    """Every device of the database: peaks in T/s (dense), bandwidth in GB/s; ~ marks estimates."""
    try:
        found = rows(vendor=vendor, kind=kind, arch=arch, dtype=dtype, sort=sort)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if as_json:
        print(json.dumps([as_dict(s) for s in found], indent=1))
        return
    head = " ".join(f"{c.split('/')[0].removesuffix('_e4m3fn')[:9]:>9s}" for c in _COLUMNS)
    print(f"{'key':36s} {'maker':13s} {'units':>6s} {'GB/s':>9s} {head}")
    for spec in found:
        print(_line(spec))
    print(f"{len(found)} devices, {len({s.vendor for s in found})} makers")


def _line(spec: DeviceSpec) -> str:
    cells = []
    for kind in _COLUMNS:
        peak = spec.peaks.get(kind) or spec.peaks.get(kind.replace("/matrix", "/vector"), 0.0)
        mark = "~" if f"peaks.{kind}" in spec.estimated or "peaks" in spec.estimated else ""
        cells.append(f"{mark}{peak / 1e12:.4g}" if peak else "-")
    numbers = " ".join(f"{c:>9s}" for c in cells)
    band = f"{spec.bandwidth / 1e9:.5g}" if spec.bandwidth else "-"
    return f"{spec.key:36s} {spec.vendor:13s} {spec.units or '-':>6} {band:>9s} {numbers}"


@app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help='Key or usual name: "H200 SXM", MI300X.')],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="The entry as in its file.")] = False,
) -> None:
    """One device with its sources, conflicts and cautions."""
    try:
        spec = hwdb.get(name)
    except PortableError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    if raw:
        print(json.dumps(hwdb.entry(spec.key), indent=1))
    elif as_json:
        print(json.dumps(as_dict(spec), indent=1))
    else:
        print_spec(spec)


@app.command("find")
def find_command(
    name: Annotated[str, typer.Argument(help="String a driver reports; none: this machine.")] = "",
    arch: Annotated[str, typer.Option(help="Architecture the driver reports: gfx942.")] = "",
    units: Annotated[int, typer.Option(help="Units the driver reports.")] = 0,
    pci: Annotated[str, typer.Option(help="PCI id: 1002:74a1.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Also ask torch, CuPy, JAX.")] = False,
) -> None:
    """The entry of a runtime string, or of the devices of this machine. Exit code 1: no entry."""
    if name:
        infos = [("asked", lookup(name, architecture=arch, units=units, pci_id=pci))]
    else:
        infos = machine(everything)
    missing = False
    for reader, info in infos:
        spec = hwdb.find(info)
        print(f"{reader}: {info.name!r}")
        if spec is None:
            missing = True
            print(f"  {hwdb.explain(info)}")
            if name and _is_our_name(name):
                print(f"  ('{name}' is a name of the database, not one that a driver reports: "
                      f"`portable hw show '{name}'`)")  # fmt: skip
        else:
            print_spec(spec)
    raise typer.Exit(1 if missing else 0)


def _is_our_name(name: str) -> bool:
    with contextlib.suppress(UnknownNameError):
        return bool(hwdb.get(name))
    return False


@app.command("audit")
def audit_command(
    table: Annotated[
        Path | None,
        typer.Argument(help="Another tool's table: CSV or JSON of device, dtype, value."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Leave the admitted exceptions out.")
    ] = False,
) -> None:
    """Checks the database (or another tool's table). Exit code 1: open findings, wrong rows."""
    raise typer.Exit(_audit_table(table) if table else _audit_database(quiet))


def _audit_database(quiet: bool) -> int:
    findings = run_audit()
    opened = [f for f in findings if not f.admitted]
    for finding in opened:
        print(f"OPEN {finding}")
    if not quiet:
        for finding in findings:
            if finding.admitted:
                print(f"admitted {finding}")
    admitted = {(f.key, f.check) for f in findings if f.admitted}
    print(f"{len(hwdb.names())} entries, {len(opened)} open findings, "
          f"{len(admitted)} admitted exceptions")  # fmt: skip
    return 1 if opened else 0


def _audit_table(path: Path) -> int:
    try:
        verdicts = audit_rows(read_rows(path))
    except (OSError, ValueError) as error:
        typer.echo(str(error), err=True)
        return 2
    for verdict in verdicts:
        print(verdict)
    counts = {s: sum(v.status == s for v in verdicts) for s in ("ok", "wrong", "unknown")}
    print(", ".join(f"{n} {status}" for status, n in counts.items()))
    return 1 if counts["wrong"] else 0
