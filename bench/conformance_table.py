"""docs/conformance.md from the pieces that bench/conformance.py ran."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.conformance import BACKENDS, owed, prepare
from portable import dtypes

ROOT = Path(__file__).parent.parent
PAGE, SUITES = ROOT / "docs" / "conformance.md", ROOT / "build" / "suites.json"
Piece = dict[str, Any]
STATUSES = ("passed", "failed", "refused")
HOW = {
    "triton[interpreter]": "the kernels on Triton's interpreter, no GPU; all at level core, some "
    "higher: it is too slow for more",
    "cuda[emulation]": "the sources on an emulated device (`tests/cuda`), no GPU; one call at a "
    "time, so that concurrent calls and streams are not shown",
    "iree[vulkan]": "Mesa's lavapipe",
}
LEVELS = ("core", "full", "hostile")
MOST_REASONS = 12


def write(pieces: list[Piece]) -> None:
    """Write the page. A piece that is missing is said to be."""
    for name in dict.fromkeys(p["backend"] for p in pieces):
        prepare(name)
    PAGE.write_text("\n".join(lines(pieces)) + "\n", encoding="utf-8")


def lines(pieces: list[Piece]) -> list[str]:
    """The whole page."""
    dates = sorted({p["date"] for p in pieces})
    pieces = sorted(pieces, key=lambda p: BACKENDS.index(p["backend"]))
    names = list(dict.fromkeys(p["candidate"] for p in pieces if p["op"] != "-"))
    text = [
        "# Conformance of all backends", "",
        "Written by `python -m bench.conformance --write` from its runs of "
        f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}, on {_machine()}. What is checked: "
        "[adding.md](adding.md#what-conformance-checks). A case is one shape, layout and regime of "
        "values in one dtype; probes count as cases. `refused` are cases that a backend says it "
        "does not take, and probes that do not apply (streams on a CPU).", "",
    ]  # fmt: skip
    text += [*_totals(pieces, names), "", *_owed(pieces, names)]
    for name in names:
        mine = [p for p in pieces if p["candidate"] == name and p["op"] != "-"]
        text += [f"## {name}", "", _versions(mine), "", *_by_op(mine), "", *_reasons(mine), ""]
        text += _failures(mine)
    return [*text, *_suites(), *_broken()]


def markdown_table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of a table."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _machine() -> str:
    return f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"


def _totals(pieces: list[Piece], names: list[str]) -> list[str]:
    rows = []
    for name in names:
        mine = [p for p in pieces if p["candidate"] == name]
        by_level = [_at_level(mine, level) for level in LEVELS]
        ops = sum(1 for o in _ops(mine) if any(p["totals"]["passed"] for p in mine if p["op"] == o))
        rows.append([name, str(ops), *(str(_sum(mine, s)) for s in STATUSES), *by_level,
                     HOW.get(name, "runs on the CPU")])  # fmt: skip
    heads = ["backend", "ops", *STATUSES, "core", "full", "hostile", "how"]
    return markdown_table(heads, rows)


def _owed(pieces: list[Piece], names: list[str]) -> list[str]:
    """What has not run, or not with the sources as they are."""
    text = []
    for name in names:
        mine = [p for p in pieces if p["candidate"] == name]
        missing, old = owed(mine[0]["backend"], mine)
        if missing:
            text.append(f"- {name}: {missing} pieces (an op in a dtype) have not run.")
        if old:
            text.append(f"- {name}: sources of {old} pieces changed after they ran.")
    return ["Owed:", "", *text, ""] if text else []


def _at_level(pieces: list[Piece], level: str) -> str:
    """ "passed/failed/refused" of the pieces that ran at this level, "-" for none."""
    ran = [p["levels"][level] for p in pieces if level in p["levels"]]
    return "/".join(str(sum(counts[s] for counts in ran)) for s in STATUSES) if ran else "-"


def _ops(pieces: Iterable[Piece]) -> list[str]:
    return sorted({p["op"] for p in pieces if p["op"] != "-"})


def _sum(pieces: Iterable[Piece], status: str) -> int:
    return sum(p["totals"][status] for p in pieces)


def _versions(pieces: list[Piece]) -> str:
    found = pieces[-1]["versions"]
    return "Versions: " + ", ".join(f"{n} {v}" for n, v in found.items()) + "."


def _by_op(pieces: list[Piece]) -> list[str]:
    rows = []
    for op in _ops(pieces):
        mine = [p for p in pieces if p["op"] == op]
        good = [dtypes.short(p["dtype"]) for p in mine
                if p["totals"]["passed"] and not p["totals"]["failed"]]  # fmt: skip
        counts = [str(_sum(mine, s)) for s in STATUSES]
        rows.append([op, " ".join(good) or "-", *counts])
    return markdown_table(["op", "dtypes that pass", *STATUSES], rows)


def _reasons(pieces: list[Piece]) -> list[str]:
    counts: dict[str, int] = {}
    for piece in pieces:
        for reason, count in piece["refused"].items():
            kind = re.sub(r"\d{4,}", "N", reason)
            counts[kind] = counts.get(kind, 0) + count
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"- {count} x {reason}" for reason, count in ranked[:MOST_REASONS]]
    rest = sum(count for _, count in ranked[MOST_REASONS:])
    more = [f"- {rest} x others"] if rest else []
    return ["Refused, with the reason:", "", *shown, *more] if shown else []


def _failures(pieces: list[Piece]) -> list[str]:
    found = [f for p in pieces for f in p["failures"]]
    if not found:
        return []
    told = [f"- {f['op']} {f['dtype']} {f['case']!r} ({f['check']}): {f['reasons'][0]}"
            for f in found]  # fmt: skip
    return ["Failures:", "", *told, ""]


def _suites() -> list[str]:
    """Counts that `python -m tests.suites --save build/suites.json` kept."""
    if not SUITES.exists():
        return []
    found = json.loads(SUITES.read_text("utf-8"))
    rows = [[f["suite"], f["version"], f["backend"], str(f["tests"]), str(f["passed"]),
             str(len(f["failed"])), str(sum(f["gaps"].values()))] for f in found]  # fmt: skip
    heads = ["suite", "version", "backend", "tests", "passed", "failed", "known gaps"]
    dates = sorted({f["date"] for f in found})
    text = [
        "## Peers' own suites", "",
        "ONNX's node tests of the operators that `portable` has, and NumPy's tests of matmul, by "
        f"`python -m tests.suites --save build/suites.json` ({', '.join(dates)}). Each known gap "
        "is named with its reason in `tests/suites/gaps.toml`, and fails the suite once it closes.",
        "", *markdown_table(heads, rows), "", "Gaps, tests x reason:", "",
    ]  # fmt: skip
    for one in found:
        told = "; ".join(f"{n} x {reason}" for reason, n in one["gaps"].items())
        text.append(f"- {one['suite']} on {one['backend']}: {told}")
    return [*text, ""]


def _broken() -> list[str]:
    """The wrong implementations of the tests, and what each is rejected for."""
    from portable.conformance import CHECKS
    from tests.wrong import behaviour, implementations

    rows = [[w.name, w.op, w.level, w.check, CHECKS[w.check]]
            for w in (*implementations.WRONG, *behaviour.WRONG)]  # fmt: skip
    heads = ["wrong implementation", "op", "level", "rejected by", "which says"]
    said = "Each is rejected, by this check first (`tests/test_conformance.py`):"
    return [f"## The {len(rows)} wrong implementations", "", said, "", *markdown_table(heads, rows)]
