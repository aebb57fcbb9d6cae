"""A report as a terminal table, Markdown, or plain data."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from portable.crosscompile.compare import Difference
from portable.crosscompile.facts import Row
from portable.crosscompile.judge import ASSUMPTIONS
from portable.crosscompile.run import Report

HEADERS = (
    "target", "backend", "op", "problem", "kernel", "config", "builds", "s", "registers", "spill B",
    "stack B", "shared B", "matrix instructions", "load bits", "binary B", "occupancy",
    "roof share (est.)", "findings",
)  # fmt: skip


def cells(row: Row) -> list[str]:
    """One text per header."""
    unit, built = row.unit, row.built
    if not built.ok:
        rest = [built.status, f"{built.seconds:.1f}", *[""] * 9]
        findings = built.message
    else:
        share = "" if row.roof_share is None else f"{row.roof_share:.0%}"
        spill = f"{built.spills} registers" if built.spills else str(built.spill_bytes)
        rest = [
            "yes", f"{built.seconds:.1f}", registers(row), spill, str(built.stack),
            str(built.shared), matrix_text(row), loads_text(built.loads), str(built.binary_size),
            occupancy_text(row), share,
        ]  # fmt: skip
        findings = "; ".join(finding.text for finding in row.findings)
    return [
        row.target.name, unit.backend, unit.op, unit.label, unit.kernel, config_text(unit.config),
        *rest, findings,
    ]  # fmt: skip


def occupancy_text(row: Row) -> str:
    """ "12% (registers)": share of the wave slots, and what limits it; "" when it is not known."""
    if row.occupancy is None:
        return ""
    return f"{row.occupancy:.0%} ({', '.join(row.limited_by).replace('_', ' ')})"


def registers(row: Row) -> str:
    """ "168", with AMD's accumulators "128+64a"."""
    built = row.built
    return (
        f"{built.registers}+{built.accumulators}a" if built.accumulators else str(built.registers)
    )


def matrix_text(row: Row) -> str:
    """The matrix instructions, or that there are none where the target has them."""
    if row.built.matrix:
        return ", ".join(f"{name} x{count}" for name, count in row.built.matrix.items())
    missing = any(finding.kind == "no-matrix-unit" for finding in row.findings)
    return "none, and the target has them" if missing else "-"


def loads_text(loads: Mapping[str, int]) -> str:
    """ "128 x4, 16 x1": width in bits and count in the text, the widest first."""
    order = sorted(loads.items(), key=lambda item: -int(item[0]) if item[0].isdigit() else -999)
    return ", ".join(f"{width} x{count}" for width, count in order)


def config_text(config: Mapping[str, Any]) -> str:
    """ "128x256x64 split 1 w8 s3" for tiles, "name value" for the rest; macros of 0 are off."""
    left = {name: value for name, value in config.items() if value != 0 or not name.isupper()}
    sizes = [
        str(left.pop(name)) for axis in "mnk" for name in (f"block_{axis}", f"B{axis.upper()}")
        if name in left
    ]  # fmt: skip
    parts = [str(left.pop("variant", "")), "x".join(sizes)]
    short = {"num_warps": "w", "num_stages": "s"}
    for name, value in left.items():
        if name != "group_m" and (name, value) != ("split_k", 1):
            parts.append(f"{short[name]}{value}" if name in short else f"{name} {value}")
    return " ".join(filter(None, parts))


SERIOUS = (
    "fails", "hang", "crash", "cannot-launch", "spill", "stack", "no-matrix-unit", "slow-path",
)  # fmt: skip
"""Kinds of findings that a compact table marks."""
TITLE = "# Kernels by target, made by `portable crosscompile --markdown`"
LEGEND = (
    "A cell: registers of a thread (`+na`: accumulators of AMD), KiB of shared memory of a block, "
    "occupancy, matrix unit. `-`: the kernel has no product; `no`: it has, and uses no matrix "
    "unit. Bold: a serious finding, told below."
)


def markdown(report: Report) -> str:
    """A row per kernel and a column per target, the findings, assumptions, what was not tried."""
    lines = [TITLE, "", summary(report), "", LEGEND]
    for backend in dict.fromkeys(row.unit.backend for row in report.rows):
        rows = [row for row in report.rows if row.unit.backend == backend]
        targets = list(dict.fromkeys(row.target.name for row in rows))
        head = ["op", "problem", "kernel", *targets]
        lines += ["", f"## {backend}", "", "| " + " | ".join(head) + " |"]
        lines.append("|" + "---|" * len(head))
        lines += _compact(rows, targets)
    lines += ["", "## Findings", ""]
    lines += [f"- {line}" for line in found_lines(report)] or ["- none"]
    lines += ["", ASSUMPTIONS, "", "## Not tried", ""]
    lines += [f"- {_escaped(text)}" for text in map(str, report.skipped)] or ["- nothing"]
    return "\n".join(lines) + "\n"


def _compact(rows: Sequence[Row], targets: Sequence[str]) -> list[str]:
    table: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for row in rows:
        key = (row.unit.op, row.unit.label, row.unit.kernel)
        cell = compact_cell(row)
        known = table.setdefault(key, {}).setdefault(row.target.name, [])
        if cell not in known:
            known.append(cell)
    return [
        "| " + " | ".join([*key, *("<br>".join(cells.get(t, [])) for t in targets)]) + " |"
        for key, cells in table.items()
    ]


def compact_cell(row: Row) -> str:
    """ "168 48K 25% wgmma"; bold with a serious finding."""
    built = row.built
    if not built.ok:
        return f"**{built.status}**"
    occupancy = "-" if row.occupancy is None else f"{row.occupancy:.0%}"
    unit = "-" if not (row.unit.factor or built.matrix) else family(built.matrix) or "no"
    text = f"{registers(row)} {built.shared / 1024:.0f}K {occupancy} {unit}"
    serious = any(finding.kind in SERIOUS for finding in row.findings)
    return f"**{text}**" if serious else text


def family(matrix: Mapping[str, int]) -> str:
    """ "mma", "wgmma", "tcgen05", "mfma", "wmma" or the first word of what is used."""
    for name in ("wgmma", "tcgen05", "mfma", "smfmac", "wmma", "swmmac", "mma"):
        if any(name in instruction for instruction in matrix):
            return name
    return next((instruction.partition(".")[0].lower() for instruction in matrix), "")


def found_lines(report: Report) -> list[str]:
    """One line per serious finding, targets with the same words together; most costly first."""
    groups: dict[tuple[str, str], tuple[float, list[str]]] = {}
    for row in report.rows:
        unit = row.unit
        for finding in row.findings:
            if finding.kind in SERIOUS:
                where = f"{unit.backend} {unit.op} {unit.label} `{unit.kernel}`"
                plain = finding.text.replace(f" on {row.target.architecture}", "")
                _, targets = groups.setdefault((where, plain), (finding.cost, []))
                if row.target.name not in targets:
                    targets.append(row.target.name)
    order = sorted(groups.items(), key=lambda item: -item[1][0])
    return [
        _escaped(f"{where} on {', '.join(targets)}: {text}")
        for (where, text), (_, targets) in order
    ]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def summary(report: Report) -> str:
    """Counts in one sentence, with the compilers."""
    rows = report.rows
    ok = sum(row.built.ok for row in rows)
    kinds = Counter(kind for row in rows for kind in {finding.kind for finding in row.findings})
    found = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
    made = "; ".join(
        f"{name}: " + ", ".join(f"{k} {v}" for k, v in versions.items())
        for name, versions in report.versions.items()
    )
    left = f", {len(report.unbuilt)} left out because the time was up" if report.unbuilt else ""
    parts = (f"{len(rows)} builds, {ok} without error{left}", f"Rows with findings: {found}", made)
    return ". ".join(filter(None, parts))


def table(report: Report, all_columns: bool = False) -> Any:
    """A rich table: the columns one needs first, findings last."""
    from rich.markup import escape
    from rich.table import Table

    wanted = HEADERS if all_columns else (
        "target", "op", "problem", "kernel", "builds", "registers", "spill B", "shared B",
        "matrix instructions", "occupancy", "findings",
    )  # fmt: skip
    shown = Table(*wanted, box=None)
    for row in report.rows:
        named = dict(zip(HEADERS, cells(row), strict=True))
        worst = max((finding.cost for finding in row.findings), default=1.0)
        style = "red" if worst >= 100 else "yellow" if worst >= 1.5 else ""
        shown.add_row(*(escape(named[name]) for name in wanted), style=style)
    return shown


def differences(found: Iterable[Difference], first: str, second: str) -> Any:
    """A rich table of a porting diff."""
    from rich.markup import escape
    from rich.table import Table

    shown = Table("backend", "op", "problem", "kernel", "loss", "",
                  title=f"{first} -> {second}", box=None)  # fmt: skip
    for item in found:
        cells = (item.backend, item.op, item.label, item.kernel, item.kind, item.text)
        shown.add_row(*map(escape, cells))
    return shown


def losses(found: Iterable[Difference]) -> str:
    """ "3 losses: 2 fails, 1 spill"; "no losses"."""
    counts = Counter(item.kind for item in found)
    if not counts:
        return "no losses"
    total = sum(counts.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    return f"{total} {'loss' if total == 1 else 'losses'}: {kinds}"


def data(report: Report) -> dict[str, Any]:
    """All rows as plain data, logs included: what `portable report --crosscompile` reads."""
    return {
        "rows": [row.to_json() for row in report.rows],
        "skipped": list(map(str, report.skipped)),
        "unbuilt": [
            " ".join(filter(None, (u.backend, u.op, u.label, u.kernel, "for", t.name)))
            for u, t in report.unbuilt
        ],
        "compilers": report.versions,
        "assumptions": ASSUMPTIONS,
    }


def write_json(report: Report, path: Path) -> None:
    """The same as a file."""
    path.write_text(json.dumps(data(report), indent=1) + "\n", encoding="utf-8")
