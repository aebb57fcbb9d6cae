"""Names people use for devices ("H200 SXM", "mi300x") to keys of entries."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache

from portable.errors import UnknownNameError
from portable.hwdb.load import HOW_TO_ADD, Entry, architecture_of, entries

_BRANDS = (
    r"\b(nvidia|amd|intel|google|aws|apple|huawei|instinct|geforce|radeon|tesla|arc"
    r"|data center gpu)\b"
)


def plain(name: str) -> str:
    """A name without case, trade marks, underscores and runs of spaces."""
    name = re.sub(r"\((r|tm)\)|[®™]", "", name.casefold())
    return re.sub(r"[\s_-]+", " ", name).strip()


def resolve(name: str) -> tuple[str, str]:
    """Key and, for a processor model, the name of the part.

    Raises:
        UnknownNameError: no entry, or several, have that name.
    """
    wanted = plain(name)
    for book in (_given(), _shortened()):
        keys = book.get(wanted, [])
        if len(keys) == 1:
            return keys[0]
        if keys:
            listed = [part or key for key, part in keys]
            raise UnknownNameError("hardware", name, listed, "Several fit: say which one.")
    raise UnknownNameError("hardware", name, _near(wanted), _hint())


def _hint() -> str:
    count = len(entries())
    return f"(The nearest of {count}; `portable hw list` shows all.) {HOW_TO_ADD}"


def _near(wanted: str) -> list[str]:
    names = _given() | _shortened()
    hits = difflib.get_close_matches(wanted, names, n=8, cutoff=0.5)
    hits = hits or difflib.get_close_matches(wanted, names, n=3, cutoff=0.0)
    return sorted({part or key for hit in hits for key, part in names[hit]})


@cache
def _given() -> dict[str, list[tuple[str, str]]]:
    """Keys, names, aliases, runtime strings and processor models."""
    book: dict[str, list[tuple[str, str]]] = {}
    for key, entry in entries().items():
        for name in {plain(n) for n in _written(key, entry)}:
            book.setdefault(name, []).append((key, ""))
        for part in entry.get("parts", []):
            book.setdefault(plain(part["name"]), []).append((key, part["name"]))
    # An explicit alias decides between entries that share a runtime string.
    for key, entry in entries().items():
        for alias in entry.get("aliases", []):
            book[plain(alias)] = [(key, "")]
    return book


def _written(key: str, entry: Entry) -> Iterator[str]:
    yield key
    yield entry["name"]
    yield from entry.get("match", {}).get("names", [])


@cache
def _shortened() -> dict[str, list[tuple[str, str]]]:
    """Names without maker, brand, remarks in parentheses and memory size."""
    book: dict[str, list[tuple[str, str]]] = {}
    for key, entry in entries().items():
        vendor = plain(architecture_of(entry)["vendor"])
        name = plain(re.sub(r"\(.*?\)", "", entry["name"]))
        short = plain(re.sub(_BRANDS, "", name))
        sized = plain(re.sub(r"\b\d+gb\b", "", short))
        form = re.sub(r"sxm\d", "sxm", sized)
        unsized = plain(re.sub(r"\b\d+gb\b", "", name))
        for form_name in {
            name,
            unsized,
            short,
            sized,
            form,
            f"{vendor} {short}",
            f"{vendor} {form}",
        }:
            if form_name:
                book.setdefault(form_name, []).append((key, ""))
    return book
