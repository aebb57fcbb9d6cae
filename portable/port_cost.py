"""What a port costs: lines of code per backend and op, how much is for one device, how much runs.

    rows()          one Row per backend, ours and plugins
    by_op()         lines per backend and op, every line once
    divergence()    code divergence over the backends, by op and over all
    counted()       all of it, for a report

A line counts when it is neither blank nor comment nor docstring. An op has the lines of its module
and of the kernel source of its own name; what several ops share is the backend's. A line is for one
device when its file is device code (CUDA, HIP, OpenCL C) or when it names an architecture (sm_90,
gfx942, avx512 ...): everything else would be written for any device. Nothing is imported from the
backends' libraries.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from portable import plain, registry
from portable.backend import Backend

SHARED = "(shared)"
"""Column of the lines of a backend that belong to no single op."""

DEVICE_CODE = (".cu", ".cuh", ".hip", ".cl", ".ptx", ".s")
_ARCHITECTURE = re.compile(
    r"\b(sm_?\d{2,3}a?|gfx\d+\w*|compute_\d+|avx\w*|amx\w*|neon|sve\d?|mfma\w*|wmma\w*|wgmma\w*"
    r"|tcgen05\w*|mma\.sync\w*)\b",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Row:
    """One backend's code.

    Attributes:
        backend: its name.
        origin: distribution and object it comes from.
        path: porting path; "" when it could not be loaded.
        ops: number of ops it has.
        coverage: share of portable's ops that it has.
        lines: lines of code, helpers included.
        per_op: mean lines per op.
        own_lines: lines in op modules; the rest is shared by its ops.
        device_lines: lines for one device: device code and lines that name an architecture.
    """

    backend: str
    origin: str
    path: str
    ops: int
    coverage: float
    lines: int
    per_op: float
    own_lines: int
    device_lines: int

    @property
    def device_share(self) -> float:
        """Share of lines that are for one device."""
        return self.device_lines / self.lines if self.lines else 0.0


@dataclass(frozen=True, slots=True)
class PortCost:
    """What the ports cost, as a report shows it.

    Attributes:
        lines: lines of code by backend and op (or SHARED), every line once.
        device_lines: lines for one device by backend.
        coverage: share of portable's ops by backend.
        divergence: code divergence over the backends by op, and "all".
    """

    lines: Mapping[str, Mapping[str, int]]
    device_lines: Mapping[str, int]
    coverage: Mapping[str, float]
    divergence: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> PortCost:
        """From JSON data, checked.

        Raises:
            RecordError: a part is missing or of another kind.
        """
        plain.unknown(data, "port cost", frozenset(cls.__slots__))
        lines = plain.mapping(data, "lines")
        return cls(
            {name: {op: int(n) for op, n in plain.numbers(lines, name).items()} for name in lines},
            {name: int(n) for name, n in plain.numbers(data, "device_lines").items()},
            plain.numbers(data, "coverage"),
            plain.numbers(data, "divergence"),
        )


def counted() -> PortCost:
    """What the backends found here cost."""
    every = rows()
    return PortCost(
        by_op(),
        {row.backend: row.device_lines for row in every},
        {row.backend: row.coverage for row in every},
        divergence(),
    )


def rows() -> list[Row]:
    """One row per backend that is found, usable here or not; the smallest first."""
    found = []
    for entry, backend, folder in _backends():
        files = code(folder)
        ops = [op for op in backend.ops() if op in registry.op_names()]
        total = sum(len(lines) for lines in files.values())
        own = sum(len(files.get(f"{op}.py", ())) for op in ops)
        found.append(
            Row(
                entry.name, entry.origin, backend.path, len(ops),
                len(ops) / len(registry.op_names()), total, total / max(len(ops), 1), own,
                sum(_device_lines(name, lines) for name, lines in files.items()),
            )
        )  # fmt: skip
    return sorted(found, key=lambda r: r.lines)


def by_op() -> dict[str, dict[str, int]]:
    """Backend -> op, or SHARED -> lines; the sum is the backend's `Row.lines`."""
    found: dict[str, dict[str, int]] = {}
    for entry, backend, folder in _backends():
        files = code(folder)
        ops = (op for op in backend.ops() if f"{op}.py" in files)
        lines = found[entry.name] = dict.fromkeys(ops, 0)
        lines[SHARED] = 0
        for file, text in files.items():
            lines[_owner(file, lines)] += len(text)
    return found


def _owner(file: str, ops: Iterable[str]) -> str:
    """The op whose module or kernel source a file is: softmax.py, softmax.cl or _softmax.cu."""
    path = Path(file)
    name = path.stem if path.suffix == ".py" else path.stem.strip("_")
    return name if path.name == file and name in ops else SHARED


def divergence() -> dict[str, float]:
    """Code divergence over the backends by op, and "all": 0 one source for all, 1 nothing shared.

    Source: Harrell and Kitson, "Effective Performance Portability" (2018); a line is the same when
    its text is.
    """
    from portable import roofline

    sources = _sources()
    found = {}
    for op in registry.op_names():
        having = {b: set(ops[op]) for b, ops in sources.items() if op in ops}
        if len(having) > 1:
            found[op] = roofline.code_divergence(having)
    whole = {b: {line for lines in ops.values() for line in lines} for b, ops in sources.items()}
    found["all"] = roofline.code_divergence({b: lines for b, lines in whole.items() if lines})
    return found


def _backends() -> Iterable[tuple[registry.Registered, Backend, Path]]:
    """Every backend whose package has files, with its entry and that folder."""
    for _, entry in sorted(registry.registered().items()):
        folder = _folder(entry.backend) if entry.backend is not None else None
        if entry.backend is not None and folder is not None:
            yield entry, entry.backend, folder


def _sources() -> dict[str, dict[str, list[str]]]:
    """Backend -> op -> lines of its module and of the kernel sources that it names."""
    found: dict[str, dict[str, list[str]]] = {}
    for entry, backend, folder in _backends():
        files = code(folder)
        ops = found[entry.name] = {}
        for op in backend.ops():
            module = files.get(f"{op}.py", [])
            named = [n for n in _named_sources(folder / f"{op}.py") if n in files]
            ops[op] = module + [line for file in named for line in files[file]]
    return found


def code(folder: Path) -> dict[str, list[str]]:
    """Lines of code of every source file of a package, by path inside it."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix == ".py":
            found[str(file.relative_to(folder))] = _python(file.read_text("utf-8"))
        elif file.suffix in DEVICE_CODE:
            text = _COMMENT.sub("", file.read_text("utf-8"))
            found[str(file.relative_to(folder))] = _stripped(text.splitlines())
    return found


def _python(text: str) -> list[str]:
    """Lines that hold a token of code: no blank line, comment or docstring."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                documented |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
              tokenize.ENDMARKER)  # fmt: skip
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            used |= set(range(token.start[0], token.end[0] + 1))
    lines = text.splitlines()
    return _stripped(lines[i - 1] for i in sorted(used - documented))


def _stripped(lines: Iterable[str]) -> list[str]:
    return [line.strip() for line in lines if line.strip()]


def _device_lines(name: str, lines: list[str]) -> int:
    if name.endswith(DEVICE_CODE):
        return len(lines)
    return sum(1 for line in lines if _ARCHITECTURE.search(line))


def _named_sources(module: Path) -> list[str]:
    """Names in a module's SOURCES, read without importing it."""
    if not module.is_file():
        return []
    for node in ast.parse(module.read_text("utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(t, ast.Name) and t.id == "SOURCES" for t in targets):
            assert isinstance(node, ast.Assign)
            values = (n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant))
            return [v for v in values if isinstance(v, str)]
    return []


def _folder(backend: object) -> Path | None:
    """Folder of a backend's package; None where it has no files."""
    module = sys.modules.get(type(backend).__module__)
    file = getattr(module, "__file__", None)
    return Path(file).parent if file and Path(file).name == "__init__.py" else None
