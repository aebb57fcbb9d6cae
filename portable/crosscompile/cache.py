"""Builds kept on disk by source hash, compiler version and target; JSON, nothing executed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from portable.crosscompile.facts import Built, Unit

FORMAT = 4
"""Raised when the parsers or the fields change: older files stop matching."""


def folder() -> Path:
    """Where the files lie: the user's cache folder, or $PORTABLE_CROSSCOMPILE_CACHE."""
    given = os.environ.get("PORTABLE_CROSSCOMPILE_CACHE")
    if given:
        return Path(given)
    from platformdirs import user_cache_path

    return user_cache_path("portable") / "crosscompile"


def key(unit: Unit, architecture: str, versions: Mapping[str, str]) -> str:
    """Everything that decides the machine code."""
    parts = [
        FORMAT, unit.backend, unit.kernel, unit.source_hash, architecture,
        sorted(unit.config.items()), sorted(versions.items()),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:40]


def load(name: str) -> Built | None:
    """The build of a key, or None; a file that cannot be read counts as absent."""
    try:
        data = json.loads((folder() / f"{name}.json").read_text(encoding="utf-8"))
        built = replace(from_json(data), cached=True)
    except (OSError, ValueError, TypeError):
        return None
    return built if built.ok else None


def store(name: str, built: Built) -> None:
    """Keeps what was built; what failed may have lacked a module or memory, and is tried again.

    A folder that cannot be written costs the cache, not the run.
    """
    if not built.ok:
        return
    with contextlib.suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=folder(), suffix=".tmp", delete=False, encoding="utf-8"
        ) as file:
            json.dump(asdict(built), file)
        Path(file.name).replace(folder() / f"{name}.json")


def from_json(data: Any) -> Built:
    """A build from plain data.

    Raises:
        TypeError: not a mapping of the fields of `Built`.
    """
    known = {field.name: field.type for field in fields(Built)}
    if not isinstance(data, dict) or not set(data) <= set(known) or "status" not in data:
        raise TypeError("not a build")
    plain: dict[str, type | tuple[type, ...]] = {
        "int": int, "str": str, "bool": bool, "float": (int, float),
    }  # fmt: skip
    for name, value in data.items():
        if not isinstance(value, plain.get(str(known[name]), dict)):
            raise TypeError(f"{name} is {value!r}")
    return Built(**data)
