"""Workloads: what real models compute, how often, and the part of it that matters most."""

from __future__ import annotations

from portable.workloads.selection import (
    SCALES,
    Selection,
    Weighted,
    bind,
    problems,
    select,
    unmapped,
)
from portable.workloads.workload import (
    Entry,
    Unmapped,
    Workload,
    load,
    names,
    parse,
    save,
    spec_of_text,
    text_of_spec,
)

__all__ = [
    "SCALES",
    "Entry",
    "Selection",
    "Unmapped",
    "Weighted",
    "Workload",
    "bind",
    "load",
    "names",
    "parse",
    "problems",
    "save",
    "select",
    "spec_of_text",
    "text_of_spec",
    "unmapped",
]
