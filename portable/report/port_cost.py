"""The cost of a port: lines of code of each implementation, counted in its sources.

Counted: lines of the op's module and of the kernel files it names (SOURCES), without blank lines,
comments and docstrings. A backend's shared helpers are a column of their own. Nothing is imported
from the backends' libraries.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import tokenize
from pathlib import Path

from portable import registry

SHARED = "(shared)"
"""Column of the modules and files of a backend that belong to no single op."""


def lines_of_code() -> dict[str, dict[str, int]]:
    """Lines by backend and op, for every backend whose package can be found."""
    found = {}
    for name, entry in sorted(registry.registered().items()):
        folder = _folder(entry.backend)
        if entry.backend is not None and folder is not None:
            found[name] = _count(folder, list(entry.backend.ops()))
    return found


def _folder(backend: object) -> Path | None:
    package = type(backend).__module__ if backend is not None else ""
    spec = importlib.util.find_spec(package) if package else None
    origin = spec.origin if spec is not None else None
    return Path(origin).parent if origin and origin.endswith("__init__.py") else None


def _count(folder: Path, ops: list[str]) -> dict[str, int]:
    lines: dict[str, int] = {}
    owned: set[str] = set()
    for op in ops:
        module = folder / f"{op}.py"
        if not module.is_file():
            continue
        text = module.read_text(encoding="utf-8")
        sources = [s for s in _sources(text) if (folder / s).is_file()]
        own = [s for s in sources if Path(s).stem.strip("_") == op]
        owned |= {f"{op}.py", *own}
        lines[op] = python_lines(text) + sum(c_lines(folder / s) for s in own)
    rest = [f for f in sorted(folder.iterdir()) if f.is_file() and f.name not in owned]
    lines[SHARED] = sum(_lines_of(file) for file in rest)
    return lines


def _lines_of(file: Path) -> int:
    if file.suffix == ".py":
        return python_lines(file.read_text(encoding="utf-8"))
    return c_lines(file) if file.suffix in (".cl", ".cu", ".cuh", ".h", ".hip") else 0


def _sources(text: str) -> list[str]:
    """Values of SOURCES in a module, without running it."""
    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(t, ast.Name) and t.id == "SOURCES" for t in targets):
            try:
                return [str(s) for s in ast.literal_eval(node.value)]  # type: ignore[attr-defined]
            except ValueError:
                return []
    return []


def python_lines(text: str) -> int:
    """Lines with code: no blank lines, comments or docstrings."""
    skip = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENDMARKER, tokenize.ENCODING,
    }  # fmt: skip
    docs = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skip:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docs)


def c_lines(file: Path) -> int:
    """Lines of a C-like file with code: no blank lines and no comments."""
    count, inside = 0, False
    for line in file.read_text(encoding="utf-8").splitlines():
        rest, inside = _without_comments(line, inside)
        count += bool(rest.strip())
    return count


def _without_comments(line: str, inside: bool) -> tuple[str, bool]:
    kept = ""
    while line:
        if inside:
            _, end, line = line.partition("*/")
            inside = not end
            continue
        slash, star = line.find("//"), line.find("/*")
        if slash >= 0 and (star < 0 or slash < star):
            return kept + line[:slash], False
        if star < 0:
            return kept + line, False
        kept, line, inside = kept + line[:star], line[star + 2 :], True
    return kept, inside
