"""Reports: porting gaps, cross-vendor comparison, performance portability, regressions.

    report = portable.report.build(records, workloads=..., chosen=..., hardware=["H200 SXM"])
    portable.report.write_html(report, "report.html")

Everything is computed from records, the ops' costs and the hardware database; nothing of the
machine that makes the report enters it.
"""

from __future__ import annotations

from portable.report.attribution import STEPS, Step, attribute
from portable.report.baseline import Change, compare
from portable.report.export import rows_as_dicts, write_csv, write_json, write_markdown
from portable.report.html import render, write_html
from portable.report.model import Report, build
from portable.report.places import Place
from portable.report.rows import Row, build_rows
from portable.report.terminal import show
from portable.report.weights import Weights, from_entries, from_mapping, from_selection

__all__ = [
    "STEPS",
    "Change",
    "Place",
    "Report",
    "Row",
    "Step",
    "Weights",
    "attribute",
    "build",
    "build_rows",
    "compare",
    "from_entries",
    "from_mapping",
    "from_selection",
    "render",
    "rows_as_dicts",
    "show",
    "write_csv",
    "write_html",
    "write_json",
    "write_markdown",
]
