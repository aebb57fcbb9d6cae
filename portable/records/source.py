"""Hash of an implementation's sources: a changed kernel makes its old records void."""

from __future__ import annotations

import functools
import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from portable.backend import trait


def source_hash(implementation: Any) -> str:
    """16 hex digits over the implementation's module and the files in its SOURCES.

    An implementation may be a module or an object; of an object, the module of its class counts.
    Returns "" when there is no source file to read (a frozen or an interactive module).
    """
    module = implementation
    if not isinstance(module, ModuleType):
        module = sys.modules.get(type(implementation).__module__)
    file = getattr(module, "__file__", None)
    if not file:
        return ""
    return _hash(file, tuple(trait(implementation, "SOURCES", ())))


@functools.cache
def _hash(file: str, sources: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    folder = Path(file).parent
    for path in [Path(file), *(folder / name for name in sources)]:
        try:
            digest.update(path.read_bytes())
        except OSError:
            return ""
    return digest.hexdigest()[:16]
