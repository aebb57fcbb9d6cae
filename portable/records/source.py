"""Hash of an implementation's sources: a changed kernel makes its old records void."""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from portable.backend import trait


def source_hash(implementation: Any) -> str:
    """16 hex digits over the implementation's module, what it imports from its own package, and
    the files in its SOURCES.

    An implementation may be a module or an object; of an object, the module of its class counts.
    Returns "" when there is no source file to read (a frozen or an interactive module).
    """
    module = implementation
    if not isinstance(module, ModuleType):
        module = sys.modules.get(type(implementation).__module__)
    file = getattr(module, "__file__", None)
    if module is None or not file:
        return ""
    package = module.__package__ or ""
    return _hash(file, package, tuple(trait(implementation, "SOURCES", ())))


@functools.cache
def _hash(file: str, package: str, sources: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    folder = Path(file).parent
    try:
        for path in [*module_files(Path(file), package), *(folder / name for name in sources)]:
            digest.update(path.read_bytes())
    except (OSError, SyntaxError):
        return ""
    return digest.hexdigest()[:16]


def module_files(file: Path, package: str) -> list[Path]:
    """A module and those of its package that it imports, directly or not, in a fixed order."""
    found, left = {file}, [file]
    while left:
        for name in _imported(left.pop(), package):
            helper = file.parent / f"{name}.py"
            if helper not in found and helper.is_file():
                found.add(helper)
                left.append(helper)
    return sorted(found)


@functools.cache
def _imported(file: Path, package: str) -> tuple[str, ...]:
    """Names of the modules of `package` that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package if node.level == 1 and not node.module else node.module or ""
            if node.level == 1 and node.module:
                base = f"{package}.{node.module}"
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        prefix = f"{package}."
        found |= {n.removeprefix(prefix).partition(".")[0] for n in names if n.startswith(prefix)}
    return tuple(sorted(found))
