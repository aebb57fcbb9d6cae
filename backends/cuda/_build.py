"""From a `.cu` file and macros to one source text, and from there to machine code."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources as files

from portable.backends.cuda._targets import Target, target
from portable.errors import CompileError

Macros = Mapping[str, int | str]
"""Compile-time parameters: numbers become `#define`s, type names become `typedef`s."""

C_TYPES = {
    "float64": "double", "float32": "float", "float16": "f16", "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3", "int64": "i64", "int32": "int", "int16": "short", "int8": "i8",
    "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool",
}  # fmt: skip
"""Names of `_common.cuh` for the dtypes."""
_GENERAL = ("_common.cuh", "_mma.cuh")
_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"$', re.MULTILINE)


@dataclass(frozen=True)
class KernelVariant:
    """One kernel as it would be built: what the cross-compile report has a row for.

    Attributes:
        op: the op it belongs to.
        kernel: name of the `__global__` function.
        file: name of the `.cu` file.
        macros: its compile-time parameters.
        source: the whole text.
        block: threads of a block.
        shared: dynamic shared memory [B].
        note: which case of the op it serves.
    """

    op: str
    kernel: str
    file: str
    macros: tuple[tuple[str, int | str], ...]
    source: str
    block: int
    shared: int
    note: str = ""


@functools.cache
def read(name: str) -> str:
    """A source file of this package."""
    return (files.files(__package__) / name).read_text(encoding="utf-8")


def assemble(file: str, built_for: Target, macros: Macros) -> str:
    """The whole text: target, general headers, macros, body.

    Macros stand after the general headers so that they cannot change a name inside of them.
    """
    return "\n".join([prologue(built_for), headers([file]), body(file, macros)])


def prologue(built_for: Target) -> str:
    """The macros that describe the target."""
    return f"#define ARCH {built_for.capability * 10}\n#define WARP {built_for.warp}\n"


def headers(names: Iterable[str]) -> str:
    """The general headers that any of the files includes, once each."""
    wanted = {header for name in names for header in _INCLUDE.findall(read(name))}
    return "".join(read(header) for header in _GENERAL if header in wanted)


def body(file: str, macros: Macros) -> str:
    """A source with its macros, without the general headers; other headers in their place."""
    lines = [
        f"typedef {value} {name};" if isinstance(value, str) else f"#define {name} {int(value)}"
        for name, value in sorted(macros.items())
    ]
    text = _INCLUDE.sub(lambda m: "" if m[1] in _GENERAL else read(m[1]), read(file))
    return "\n".join([*lines, text])


def digest(text: str) -> str:
    """A short hash of a source."""
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def build_cubin(
    source: str, arch: str, macros: Macros | None = None, include: Sequence[str] = ()
) -> bytes:
    """Machine code of a source for an NVIDIA architecture, by NVRTC; needs no GPU.

    Args:
        source: name of a `.cu` file of this package, or a whole text.
        arch: "sm_80", "sm_90a", ...
        macros: compile-time parameters, when `source` is a file name.
        include: folders of headers.

    Raises:
        CompileError: with the source and the compiler's whole log.
        ImportError: cuda-core is not installed (pip install cuda-core nvidia-cuda-nvrtc).
    """
    from cuda.core import Program, ProgramOptions

    text = assemble(source, target(arch), macros or {}) if source.endswith(".cu") else source
    options = ProgramOptions(arch=arch, std="c++17", include_path=list(include) or None)
    try:
        code = Program(text, "c++", options).compile("cubin").code
    except Exception as error:  # cuda-core wraps NVRTC's errors in types of its own
        raise CompileError(f"{source[:40]!r} for {arch}", str(error), text) from error
    return bytes(code)
