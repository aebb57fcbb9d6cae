"""Resources and instructions read from compiler output: PTX with ptxas' log, SASS, AMD assembly.

Every function takes text and returns a mapping with those fields of `facts.Built` it can tell.
Counts are of instructions in the text, not of executions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

_PTX_MATRIX = re.compile(
    r"\b(wgmma\.mma_async|tcgen05\.mma|w?mma\.(?:m\d+n\d+k\d+\.)?(?:mma\.)?(?:sync|sp)|mma\.sync)"
    r"([\w.:]*)"
)
_PTX_LOAD = re.compile(r"\bld\.global((?:[.:]+\w+)+)")
_PTX_WIDTH = re.compile(r"[a-z]+(\d+)")
_PTX_ASYNC = re.compile(
    r"\bcp\.async\.c[ag][\w.:]*\s+\[[^\]]*\],\s*\[[^\]]*\],\s*(0x[0-9a-f]+|\d+)"
)
_PTX_BULK = re.compile(r"\bcp\.async\.bulk\.(?:tensor\.\dd\.)?shared[\w.:]*")
_SHAPE = re.compile(r"m\d+n\d+k\d+")
_PTX_TYPES = ("e4m3", "e5m2", "tf32", "bf16", "f16", "f64", "s8", "u8", "f32")

_LOG = {
    "registers": re.compile(r"Used (\d+) registers"),
    "stack": re.compile(r"(\d+) bytes stack frame"),
    "stores": re.compile(r"(\d+) bytes spill stores"),
    "loads": re.compile(r"(\d+) bytes spill loads"),
    "static": re.compile(r"(\d+) bytes smem"),
}
_USAGE = {
    "registers": re.compile(r"\bREG:(\d+)"),
    "stack": re.compile(r"\bSTACK:(\d+)"),
    "shared": re.compile(r"\bSHARED:(\d+)"),
}
_SASS = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.MULTILINE)
_SASS_WIDTHS = {"256": 256, "128": 128, "64": 64, "U16": 16, "S16": 16, "U8": 8, "S8": 8}
_SASS_MATRIX = re.compile(r"(?:[HIDQO]|[HIQ]G|UTC[HQIO])MMA")

_AMD = {
    "registers": (re.compile(r"; NumVgprs: (\d+)"), re.compile(r"\.vgpr_count:\s+(\d+)")),
    "accumulators": (re.compile(r"; NumAgprs: (\d+)"), re.compile(r"\.agpr_count:\s+(\d+)")),
    "scalars": (re.compile(r"\.sgpr_count:\s+(\d+)"),),
    "spills": (re.compile(r"\.vgpr_spill_count:\s+(\d+)"),),
    "stack": (re.compile(r"\.private_segment_fixed_size:\s+(\d+)"),),
    "shared": (re.compile(r"\.group_segment_fixed_size:\s+(\d+)"),),
}
_AMD_MATRIX = re.compile(r"^\s+(v_(?:mfma|smfmac|wmma|swmmac)_\w+)", re.MULTILINE)
_AMD_LOAD = re.compile(r"^\s+(?:global|buffer|flat)_load_(?:lds_)?(\w+)", re.MULTILINE)
_AMD_WIDTHS = {
    "ubyte": 8, "sbyte": 8, "u8": 8, "i8": 8, "ushort": 16, "sshort": 16, "u16": 16, "i16": 16,
    "short": 16, "b16": 16, "dword": 32, "b32": 32, "dwordx2": 64, "b64": 64, "dwordx3": 96,
    "b96": 96, "dwordx4": 128, "b128": 128,
}  # fmt: skip


def ptx(text: str, log: str) -> dict[str, Any]:
    """PTX for instructions, the log of `ptxas -v` for registers, stack and spills."""
    loads: Counter[str] = Counter()
    for modifiers in _PTX_LOAD.findall(text):
        loads[str(_ptx_bits(modifiers))] += 1
    for match in _PTX_ASYNC.finditer(text):
        loads[str(int(match[1], 0) * 8)] += 1
    bulk = len(_PTX_BULK.findall(text))
    if bulk:
        loads["bulk"] += bulk
    matrix = Counter(_ptx_name(m[1], m[2]) for m in _PTX_MATRIX.finditer(text))
    found = {name: _last(pattern, log) for name, pattern in _LOG.items()}
    return {
        "registers": found["registers"],
        "stack": found["stack"],
        "spill_bytes": found["stores"] + found["loads"],
        "shared": found["static"],
        "matrix": dict(matrix),
        "loads": dict(loads),
    }


def _ptx_bits(modifiers: str) -> int:
    """128 of ".L1::evict_last.v4.b32": elements times the size of the type, which comes last."""
    *others, kind = re.split(r"[.:]+", modifiers)
    elements = next((int(part[1:]) for part in others if re.fullmatch(r"v\d", part)), 1)
    size = _PTX_WIDTH.fullmatch(kind)
    return elements * int(size[1]) if size else 0


def _ptx_name(instruction: str, rest: str) -> str:
    """ "wgmma m64n256k16 bf16" from an instruction's modifiers."""
    name = instruction.split(".")[0] if instruction.startswith("w") else instruction
    shape = _SHAPE.search(instruction + rest)
    parts = rest.split(".")
    kind = next((t for t in _PTX_TYPES if t in parts), "")
    # of m16n8k16.row.col.f32.bf16.bf16.f32 the factors count, not the accumulator
    factors = [t for t in parts if t in _PTX_TYPES and t != "f32"]
    kind = factors[-1] if factors else kind
    if not kind and "kind::" in rest:
        kind = rest.split("kind::")[1].split(".")[0]
    return " ".join(filter(None, (name, shape[0] if shape else "", kind)))


def cuobjdump(sass: str, usage: str) -> dict[str, Any]:
    """`cuobjdump -sass` for instructions, `-res-usage` for registers, stack, static shared."""
    loads: Counter[str] = Counter()
    matrix: Counter[str] = Counter()
    spills = 0
    for name in _SASS.findall(sass):
        opcode = name.partition(".")[0]
        if opcode in ("LDG", "LDGSTS"):
            loads[str(_sass_bits(name))] += 1
        elif opcode in ("LDL", "STL"):
            spills += _sass_bits(name) // 8
        elif _SASS_MATRIX.fullmatch(opcode):
            matrix[name] += 1
    found = {name: _last(pattern, usage) for name, pattern in _USAGE.items()}
    return found | {"spill_bytes": spills, "matrix": dict(matrix), "loads": dict(loads)}


def _sass_bits(name: str) -> int:
    parts = name.split(".")
    for part, bits in (
        ("256", 256),
        ("128", 128),
        ("64", 64),
        ("U16", 16),
        ("S16", 16),
        ("U8", 8),
        ("S8", 8),
    ):
        if part in parts:
            return bits
    return 32


def amdgcn(text: str) -> dict[str, Any]:
    """AMD assembly with its metadata; accumulators are apart from the vector registers."""
    found = {}
    for name, patterns in _AMD.items():
        values = (pattern.findall(text) for pattern in patterns)
        found[name] = next((int(v[-1]) for v in values if v), 0)
    if not _AMD["registers"][0].search(text):  # the metadata's count holds both kinds
        found["registers"] = max(0, found["registers"] - found["accumulators"])
    loads = Counter(
        str(_AMD_WIDTHS[w]) for m in _AMD_LOAD.finditer(text) if (w := _amd_width(m[1]))
    )
    return found | {
        "matrix": dict(Counter(_AMD_MATRIX.findall(text))),
        "loads": dict(loads),
    }


def _amd_width(suffix: str) -> str:
    """ "dwordx4" of "dwordx4", "short" of "short_d16_hi"."""
    for part in (suffix, suffix.removeprefix("d16_").removeprefix("hi_"), suffix.split("_")[0]):
        if part in _AMD_WIDTHS:
            return part
    return ""


def _last(pattern: re.Pattern[str], text: str) -> int:
    values = pattern.findall(text)
    return int(values[-1]) if values else 0


def read(artifact: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Built` from what a backend's `build` returned.

    Raises:
        ValueError: a kind of assembly this module does not know.
    """
    kind, text, log = artifact["kind"], artifact["assembly"], artifact["log"]
    if kind == "ptx":
        found = ptx(text, log)
    elif kind == "cuobjdump":
        found = cuobjdump(text, log)
    elif kind == "amdgcn":
        found = amdgcn(text)
    else:
        raise ValueError(f"assembly is {kind!r} (ptx, cuobjdump or amdgcn)")
    own = found.get("shared", 0) - artifact.get("reserved", 0)
    found["shared"] = max(own, artifact["shared"])
    return found | {"threads": artifact["threads"], "binary_size": artifact["binary_size"]}
