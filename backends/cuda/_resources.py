"""What a cubin needs and contains, as `cuobjdump` prints it.

The tools come with a CUDA toolkit or with the `triton` package.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MATRIX = {
    "HMMA": "mma.sync f16/bf16/tf32", "IMMA": "mma.sync int8", "DMMA": "mma.sync f64",
    "QMMA": "mma.sync fp8", "OMMA": "mma.sync fp4", "BMMA": "mma.sync b1",
    "HGMMA": "wgmma f16/bf16/tf32", "IGMMA": "wgmma int8", "QGMMA": "wgmma fp8",
    "UTCHMMA": "tcgen05 f16/bf16", "UTCIMMA": "tcgen05 int8", "UTCQMMA": "tcgen05 fp8",
}  # fmt: skip
"""Instructions of the matrix units, by their names in machine code."""

_FUNCTION = re.compile(r"^ Function ([\w$.]+):$", re.MULTILINE)
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_CODE = re.compile(r"^\s*Function : ([\w$.]+)$", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.MULTILINE)


@functools.cache
def tool(name: str) -> str | None:
    """Path of "cuobjdump" or "nvdisasm", or None where there is none."""
    if (found := shutil.which(name)) is not None:
        return found
    spec = importlib.util.find_spec("triton")
    for place in spec.submodule_search_locations or () if spec else ():
        path = Path(place) / "backends" / "nvidia" / "bin" / name
        if path.exists():
            return str(path)
    return None


def resources(cubin: bytes) -> Mapping[str, Mapping[str, Any]]:
    """Resources by kernel name.

    Each value holds: registers (of a thread), stack [B], shared [B] (static; from sm_90 on, unless
    it is 0, with the 1 KiB that the system keeps in each block), spills (loads and stores of local
    memory in the code; kernels here have no local arrays, so each is a spilled register),
    instructions (Counter by opcode without modifiers), matrix (opcodes of the matrix units),
    widest_load and widest_store [B] of global memory.

    Raises:
        FileNotFoundError: no cuobjdump.
    """
    usage, _, code = _dump(cubin, "-res-usage", "-sass").partition("\tcode for ")
    listings = dict(zip(*_split(_CODE, code), strict=True))
    return {
        name: _entry(text, listings.get(name, ""))
        for name, text in zip(*_split(_FUNCTION, usage), strict=True)
    }


def _dump(cubin: bytes, *options: str) -> str:
    program = tool("cuobjdump")
    if program is None:
        raise FileNotFoundError(
            "cuobjdump is neither on the PATH nor in the triton package: pip install triton"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        done = subprocess.run(
            [program, *options, str(path)], capture_output=True, text=True, check=True, timeout=120
        )
    return done.stdout


def _split(pattern: re.Pattern[str], text: str) -> tuple[list[str], list[str]]:
    """Names that a pattern finds, and the text after each up to the next."""
    parts = pattern.split(text)[1:]
    return parts[::2], parts[1::2]


def _entry(usage: str, code: str) -> Mapping[str, Any]:
    match = _USAGE.search(usage)
    if match is None:
        raise ValueError(f"cuobjdump prints an unknown format: {usage[:200]!r}")
    registers, stack, shared, local = map(int, match.groups())
    full = _INSTRUCTION.findall(code)
    opcodes = Counter(name.partition(".")[0] for name in full)
    return {
        "registers": registers,
        "stack": stack + local,
        "shared": shared,
        "spills": opcodes["STL"] + opcodes["LDL"],
        "instructions": opcodes,
        "matrix": sorted(name for name in opcodes if name in MATRIX),
        "widest_load": max(
            (_width(i) for i in full if i.startswith(("LDG.", "LDGSTS."))), default=0
        ),
        "widest_store": max((_width(i) for i in full if i.startswith("STG.")), default=0),
    }


def _width(instruction: str) -> int:
    """Bytes that one memory instruction moves per thread."""
    for bits in (256, 128, 64):
        if f".{bits}" in instruction:
            return bits // 8
    return 2 if ".U16" in instruction or ".S16" in instruction else 1 if ".U8" in instruction else 4
