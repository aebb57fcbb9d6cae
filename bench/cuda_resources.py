"""Compile every CUDA kernel for every NVIDIA architecture and write docs/cuda-resources.md.

    python -m bench.cuda_resources [--arch sm_80 ...] [--op matmul ...] [--out FILE] [--jobs N]

Needs no GPU: NVRTC (cuda-core, nvidia-cuda-nvrtc) builds, cuobjdump (of a CUDA toolkit or of the
triton package) reads the result.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from portable.backends.cuda import backend
from portable.backends.cuda._build import KernelVariant
from portable.errors import CompileError

ARCHES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120")
OUT = Path(__file__).parent.parent / "docs" / "cuda-resources.md"
HEAD = """# Registers, spills and matrix instructions of the CUDA kernels

Written by `python -m bench.cuda_resources` on {date} with NVRTC {nvrtc}; no GPU was involved.
Each kernel of each op is listed once, in the default configuration of its kind for a typical
problem (`backends/cuda/_catalogue.py`). A cell holds registers per thread, then the matrix
instructions found in the machine code, then, if there are any, spills (loads and stores of local
memory) and stack. "–": another kernel or configuration is built for that architecture.

{summary}

| op | kernel | case | threads | dynamic shared [B] | load/store [B] | {arches} |
|---|---|---|---|---|---|{rule}|
"""


@dataclass(frozen=True)
class Built:
    """One kernel for one architecture."""

    arch: str
    key: tuple[str, str, str]
    row: tuple[str, ...]
    cell: str
    spills: int
    failed: str = ""


def build(arch: str, variant: KernelVariant) -> Built:
    """Compile and read."""
    macros = ", ".join(f"{name} {value}" for name, value in variant.macros)
    key = (variant.op, variant.kernel, macros)
    row = [variant.op, variant.kernel, variant.note, str(variant.block), str(variant.shared)]
    try:
        found = backend.resources(backend.build_cubin(variant.source, arch, {}))[variant.kernel]
    except CompileError as error:
        return Built(arch, key, (*row, "?"), "does not compile", 0, error.log)
    cell = " ".join([str(found["registers"]), *found["matrix"]])
    if found["spills"] or found["stack"]:
        cell += f" **{found['spills']} spills, {found['stack']} B stack**"
    row.append(f"{found['widest_load']}/{found['widest_store']}")
    return Built(arch, key, tuple(row), cell, found["spills"])


def table(built: Iterable[Built], arches: list[str]) -> str:
    """The document."""
    built = list(built)
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    rows: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for one in built:
        cells.setdefault(one.key, {})[one.arch] = one.cell
        rows.setdefault(one.key, one.row)
    spilled = [one for one in built if one.spills]
    failed = [one for one in built if one.failed]
    summary = f"{len(built)} builds: {len(failed)} do not compile, {len(spilled)} spill registers."
    lines = [
        "| " + " | ".join([*rows[key], *(cells[key].get(arch, "–") for arch in arches)]) + " |"
        for key in rows
    ]
    head = HEAD.format(
        date=datetime.date.today().isoformat(),
        nvrtc=version("nvidia-cuda-nvrtc"),
        summary=summary,
        arches=" | ".join(arches),
        rule="|".join("---" for _ in arches),
    )
    return head + "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Build all, write the table; 1 when something does not compile or spills."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--arch", nargs="*", default=list(ARCHES))
    parser.add_argument("--op", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args(arguments)
    work = [
        (arch, variant)
        for arch in chosen.arch
        for variant in backend.kernels(arch)
        if not chosen.op or variant.op in chosen.op
    ]
    with ProcessPoolExecutor(chosen.jobs) as pool:
        built = list(pool.map(build, *zip(*work, strict=True), chunksize=8))
    for one in built:
        if one.failed or one.spills:
            print(one.arch, *one.key, one.cell, one.failed[:2000], sep=" | ", file=sys.stderr)
    chosen.out.write_text(table(built, chosen.arch), encoding="utf-8")
    print(f"{len(built)} builds -> {chosen.out}")
    return int(any(one.failed or one.spills for one in built))


if __name__ == "__main__":
    sys.exit(main())
