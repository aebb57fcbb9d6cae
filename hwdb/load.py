"""Reads the TOML files of the database, once.

An architecture file may name a `parent`, a device names its `architecture`; tables are merged, the
nearer one wins. All of it is about 250 KB and takes some 30 ms to read.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

HOW_TO_ADD = (
    "To add a device: one table in hwdb/devices/*.toml with a source per group of numbers "
    "(hwdb/README.md shows how), then run `portable hw audit`."
)

Entry = dict[str, Any]
"""A table of a TOML file; fields and units are documented in hwdb/README.md."""


_plugins: dict[str, Traversable] = {}


def add_folder(origin: str, folder: Traversable) -> None:
    """Entries of a plugin: `folder/devices/*.toml` and `folder/architectures/*.toml`.

    Raises:
        ValueError: a file is not valid, an entry has a key that is taken, or the folder has none.
    """
    if _plugins.get(origin) == folder:
        return
    known = set(entries())
    _plugins[origin] = folder
    _forget()
    try:
        if set(entries()) == known:
            raise ValueError(f"{folder} holds no devices/*.toml with an entry")
        for entry in entries().values():
            architecture_of(entry)
    except Exception:
        remove_folder(origin)
        raise


def remove_folder(origin: str) -> None:
    """Forget a plugin's entries."""
    if _plugins.pop(origin, None) is not None:
        _forget()


def _forget() -> None:
    """Drop what was read and every index that was made of it."""
    for name in ("load", "match", "names", "cpu", "spec"):
        module = sys.modules.get(f"portable.hwdb.{name}")
        for value in vars(module).values() if module else ():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def _documents(folder: str) -> Iterator[tuple[str, Entry]]:
    """Name without suffix and content of every TOML file of a folder, ours first, by name."""
    for root in (files("portable.hwdb"), *_plugins.values()):
        place = root / folder
        if place.is_dir():
            yield from _read(place, folder)


def _read(root: Traversable, folder: str) -> Iterator[tuple[str, Entry]]:
    for file in sorted(root.iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            try:
                yield file.name.removesuffix(".toml"), tomllib.loads(file.read_text("utf-8"))
            except tomllib.TOMLDecodeError as error:
                raise ValueError(f"{folder}/{file.name} is not valid TOML: {error}") from error


@cache
def architectures() -> dict[str, Entry]:
    """Every architecture by key (the file name), parents merged in."""
    raw = dict(_documents("architectures"))

    def whole(key: str) -> Entry:
        table = raw[key]
        parent = table.get("parent")
        return merged(whole(parent), table) if parent else table

    return {key: whole(key) for key in raw}


@cache
def entries() -> dict[str, Entry]:
    """Every device entry by key, as written, with the name of its file under "file"."""
    found: dict[str, Entry] = {}
    for name, tables in _documents("devices"):
        for key, table in tables.items():
            if key in found:
                raise ValueError(
                    f"{key} is in devices/{found[key]['file']} and devices/{name}.toml"
                )
            found[key] = table | {"file": f"{name}.toml"}
    return found


def architecture_of(entry: Entry) -> Entry:
    """The architecture an entry inherits from."""
    known = architectures()
    name = entry["architecture"]
    if name not in known:
        raise ValueError(f"{entry['name']}: no file architectures/{name}.toml")
    return known[name]


def merged(base: Entry, over: Entry) -> Entry:
    """`base` with the values of `over`; sub-tables are merged, everything else replaced."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[key] = merged(old, value) if both else value  # type: ignore[arg-type]
    return result
