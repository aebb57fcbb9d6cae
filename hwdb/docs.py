"""Writes docs/hardware.md, docs/hardware/*.svg and docs/hwdb-audit.md from the database.

Use: `python -m portable.hwdb.docs [FOLDER]` writes below FOLDER ("docs"); with `--check` the exit
code is 1 when a file is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from portable.device import DeviceSpec
from portable.hwdb.load import entries
from portable.hwdb.spec import build
from portable.hwdb.svg import roofline_svg
from portable.hwdb.tables import audit_rows, read_rows

_PEAKS = (
    ("f64 v", "float64/vector"), ("f64 m", "float64/matrix"), ("f32 v", "float32/vector"),
    ("f32 m", "float32/matrix"), ("tf32 m", "tfloat32/matrix"), ("f16 m", "float16/matrix"),
    ("bf16 m", "bfloat16/matrix"), ("f8 m", "float8_e4m3fn/matrix"),
    ("f4 m", "float4_e2m1fn/matrix"),
    ("i8 m", "int8/matrix"),
)  # fmt: skip
_INTRO = """# Hardware

Generated from the hardware database (`python -m portable.hwdb.docs`); do not edit by hand.
{count} entries of {makers} makers. `portable hw show NAME` prints one entry with the source of
every group of numbers, its conflicts and cautions; `hwdb/README.md` tells fields, units and how to
add one.

* Peaks are **dense**, in 10^12 operations per second; v = vector unit, m = matrix unit with the
  accumulate type that code gets by default (float32, int32). A processor without a matrix unit
  shows its vector rate for bf16 and i8.
* Bandwidth is decimal GB/s. The ridge point is peak / bandwidth in FLOP/B: work with fewer
  operations per byte is bound by memory.
* `~` marks what is computed by rule (rate per unit x units x clock) instead of published.
* Nothing on this page was measured by this project. What others measured is in the entries under
  `measured`, apart from peaks.
* A processor is shown as the largest part that its entry lists (one socket), else as one core;
  `find` uses the cores it sees.

"""


def page(specs: Iterable[DeviceSpec]) -> str:
    """The page: per maker a table of peaks, a table of ridge points and the rooflines."""
    ordered = sorted(specs, key=lambda s: (s.vendor.casefold(), s.year, s.key))
    makers = {s.vendor for s in ordered}
    text = [_INTRO.format(count=len(ordered), makers=len(makers))]
    for vendor, group in groupby(ordered, key=lambda s: s.vendor):
        own = list(group)
        text.append(f"## {vendor}\n\n{_peak_table(own)}\n\n{_ridge_table(own)}\n")
    return "\n".join(text)


def _peak_table(specs: list[DeviceSpec]) -> str:
    columns = _used(specs)
    head = [
        "device",
        "year",
        "arch",
        "units",
        "GHz",
        "GB",
        "GB/s",
        *(n for n, _ in columns),
        "conf.",
    ]
    lines = [_row(head), _row(["---"] * len(head))]
    for spec in specs:
        cells = [
            f"{spec.name}<br>`{spec.key}`", str(spec.year or ""), spec.architecture,
            str(spec.units or ""), f"{spec.clock / 1e9:.2f}" if spec.clock else "",
            f"{spec.memory_size / 1e9:g}" if spec.memory_size else "",
            f"{spec.bandwidth / 1e9:g}" if spec.bandwidth else "",
            *(_peak(spec, kind) for _, kind in columns), spec.confidence,
        ]  # fmt: skip
        lines.append(_row(cells))
    return "Peaks [10^12/s]\n\n" + "\n".join(lines)


def _ridge_table(specs: list[DeviceSpec]) -> str:
    columns = _used(specs)
    head = ["device", *(n for n, _ in columns), "roofline"]
    lines = [_row(head), _row(["---"] * len(head))]
    for spec in specs:
        cells = [spec.name, *(_ridge(spec, kind) for _, kind in columns)]
        drawn = bool(spec.peaks and spec.bandwidth)
        cells.append(f"[svg](hardware/{spec.key}.svg)" if drawn else "no peak or bandwidth")
        lines.append(_row(cells))
    return "Ridge points [FLOP/B]\n\n" + "\n".join(lines)


def _used(specs: list[DeviceSpec]) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in _PEAKS if any(_value(s, kind) for s in specs)]


def _value(spec: DeviceSpec, kind: str) -> float:
    value = spec.peaks.get(kind, 0.0)
    if not value and spec.kind == "cpu" and kind in ("bfloat16/matrix", "int8/matrix"):
        value = spec.peaks.get(kind.replace("/matrix", "/vector"), 0.0)
    return value


def _peak(spec: DeviceSpec, kind: str) -> str:
    value = _value(spec, kind)
    mark = "~" if "peaks" in spec.estimated or f"peaks.{kind}" in spec.estimated else ""
    return f"{mark}{value / 1e12:.4g}" if value else ""


def _ridge(spec: DeviceSpec, kind: str) -> str:
    value = _value(spec, kind)
    return f"{value / spec.bandwidth:.3g}" if value and spec.bandwidth else ""


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def shown() -> list[DeviceSpec]:
    """Every entry; a processor as the largest part that it lists."""
    found = []
    for key, entry in entries().items():
        parts = sorted(entry.get("parts", []), key=lambda part: -part["cores"])
        found.append(build(key, part=parts[0]["name"] if parts else ""))
    return found


_AUDIT_INTRO = """# Audit of public tables

`portable hw audit FILE` compares another tool's table with the database and names the likely
mistake. This is its run on the tables in `docs/hwdb-audit/` (device, dtype, value as those tools
have them at the commit named), generated by `python -m portable.hwdb.docs`. "ok" means within
1.5 % of the dense data-sheet figure; a wrong row can have several explanations because several
figures coincide (1513 is the sparse bfloat16 and the dense float8 figure of one card). "wrong" is
said of the number, not of the tool: some of these figures are right for a purpose of their own.

"""


def audit_page(folder: Path) -> str:
    """The audit of every table in `folder`: counts, and each row that is not ok with its reason."""
    text = [_AUDIT_INTRO]
    for path in sorted(folder.glob("*.csv")):
        verdicts = audit_rows(read_rows(path))
        counts = {s: sum(v.status == s for v in verdicts) for s in ("ok", "wrong", "unknown")}
        head = [line[2:] for line in path.read_text("utf-8").splitlines() if line.startswith("# ")]
        text.append(f"## {path.stem}\n\n" + "\n".join(f"{line}." for line in head) + "\n")
        text.append(", ".join(f"{n} {status}" for status, n in counts.items()) + ".\n")
        names = ["device", "dtype", "value", "database", "likely mistake"]
        lines = [_row(names), _row(["---"] * len(names))]
        for v in verdicts:
            if v.status != "ok":
                reason = "; or ".join(v.mistakes) or "no usual mistake explains it"
                expected = f"{v.expected:.4g}" if v.expected else v.status
                lines.append(
                    _row([v.row.device, v.row.dtype, f"{v.row.value:.4g}", expected, reason])
                )
        text.append("\n".join(lines) + "\n")
    return "\n".join(text)


def files(folder: Path) -> dict[str, str]:
    """Every file of the pages by its path below the docs folder."""
    specs = shown()
    made = {"hardware.md": page(specs)}
    if (folder / "hwdb-audit").is_dir():
        made["hwdb-audit.md"] = audit_page(folder / "hwdb-audit")
    for spec in specs:
        if spec.peaks and spec.bandwidth:
            made[f"hardware/{spec.key}.svg"] = roofline_svg(spec)
    return made


def stale(folder: Path) -> list[str]:
    """Files below `folder` that are missing, differ or should not be there."""
    made = files(folder)
    bad = [
        name for name, text in made.items()
        if not (folder / name).exists() or (folder / name).read_text("utf-8") != text
    ]  # fmt: skip
    extra = {f"hardware/{p.name}" for p in (folder / "hardware").glob("*.svg")} - set(made)
    return sorted([*bad, *extra])


def write(folder: Path) -> int:
    """Writes all files and removes drawings of entries that are gone; returns how many it wrote."""
    made = files(folder)
    (folder / "hardware").mkdir(parents=True, exist_ok=True)
    for path in (folder / "hardware").glob("*.svg"):
        if f"hardware/{path.name}" not in made:
            path.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, "utf-8")
    return len(made)


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit code."""
    check = "--check" in arguments
    rest = [a for a in arguments if a != "--check"]
    folder = Path(rest[0]) if rest else Path("docs")
    if check:
        old = stale(folder)
        sys.stdout.write("".join(f"not current: {folder / name}\n" for name in old))
        return 1 if old else 0
    sys.stdout.write(f"{write(folder)} files below {folder}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
