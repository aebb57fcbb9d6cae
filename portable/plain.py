"""Reading JSON that others wrote: types and sizes are checked, nothing is executed.

Every function raises RecordError with the field's name and what is wrong with it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from portable.errors import RecordError

MAX_LINE = 1 << 20  # bytes of one record or entry
MAX_TEXT = 4096  # characters of one string
MAX_ITEMS = 256  # entries of one mapping
MAX_SAMPLES = 10_000
MAX_NDIM = 32
MAX_EXTENT = 2**63 - 1

Scalar = str | int | float | bool


def parse(text: str | bytes) -> dict[str, Any]:
    """One JSON object; NaN, infinities and anything larger than MAX_LINE are refused."""
    if len(text) > MAX_LINE:
        raise RecordError(f"{len(text)} bytes in one object (at most {MAX_LINE})")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise RecordError(f"a JSON {type(value).__name__} (an object is needed)")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def dump(value: Any) -> str:
    """Canonical JSON: sorted keys, no blanks, finite numbers only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def text(data: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A string of at most MAX_TEXT characters; required when there is no default."""
    value = data.get(name, default)
    if not isinstance(value, str):
        raise RecordError(f"{name} is {_show(value)} (text is needed)")
    if len(value) > MAX_TEXT:
        raise RecordError(f"{name} has {len(value)} characters (at most {MAX_TEXT})")
    return value


def integer(data: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """A whole number from 0 to 2**63 - 1; required when there is no default."""
    value = data.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_EXTENT:
        raise RecordError(f"{name} is {_show(value)} (a whole number >= 0 is needed)")
    return value


def mapping(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object of at most MAX_ITEMS entries; {} when absent."""
    value = data.get(name, {})
    if not isinstance(value, dict):
        raise RecordError(f"{name} is {_show(value)} (an object is needed)")
    if len(value) > MAX_ITEMS:
        raise RecordError(f"{name} has {len(value)} entries (at most {MAX_ITEMS})")
    for key in value:
        if len(key) > MAX_TEXT:
            raise RecordError(f"{name} has a name of {len(key)} characters (at most {MAX_TEXT})")
    return value


def sequence(data: Mapping[str, Any], name: str, limit: int) -> list[Any]:
    """A list of at most `limit` entries; [] when absent."""
    value = data.get(name, [])
    if not isinstance(value, list):
        raise RecordError(f"{name} is {_show(value)} (a list is needed)")
    if len(value) > limit:
        raise RecordError(f"{name} has {len(value)} entries (at most {limit})")
    return value


def texts(data: Mapping[str, Any], name: str) -> dict[str, str]:
    """An object of strings."""
    return {key: text({key: value}, key) for key, value in mapping(data, name).items()}


def numbers(data: Mapping[str, Any], name: str) -> dict[str, float]:
    """An object of finite numbers."""
    return {key: number(value, f"{name}.{key}") for key, value in mapping(data, name).items()}


def scalars(data: Mapping[str, Any], name: str) -> dict[str, Scalar]:
    """An object of strings, numbers and booleans."""
    found: dict[str, Scalar] = {}
    for key, value in mapping(data, name).items():
        if isinstance(value, str):
            found[key] = text({key: value}, key)
        elif isinstance(value, bool) or (isinstance(value, int) and abs(value) <= MAX_EXTENT):
            found[key] = value
        else:
            found[key] = number(value, f"{name}.{key}")
    return found


def number(value: Any, name: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordError(f"{name} is {_show(value)} (a number is needed)")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise RecordError(f"{name} is {_show(value)} (a finite number is needed)")
    return result


def nested(data: Mapping[str, Any], name: str, depth: int = 3) -> dict[str, Any]:
    """An object of text, numbers, booleans and, to the depth, such objects and lists."""
    return {
        key: _nested(value, f"{name}.{key}", depth) for key, value in mapping(data, name).items()
    }


def _nested(value: Any, name: str, depth: int) -> Any:
    if isinstance(value, dict) and depth > 0:
        return nested({name: value}, name, depth - 1)
    if isinstance(value, list) and depth > 0:
        items = sequence({name: value}, name, MAX_ITEMS)
        return [_nested(item, name, depth - 1) for item in items]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text({name: value}, name)
    if isinstance(value, int) and abs(value) <= MAX_EXTENT:
        return value
    return number(value, name)


def one_of(value: str, name: str, allowed: tuple[str, ...]) -> str:
    """A string from a fixed list."""
    if value not in allowed:
        raise RecordError(f"{name} is {_show(value)} (one of {', '.join(allowed)})")
    return value


def unknown(data: Mapping[str, Any], what: str, allowed: frozenset[str]) -> None:
    """Refuses fields that nobody reads: a misspelt field must not be dropped in silence."""
    extra = sorted(set(data) - allowed)
    if extra:
        raise RecordError(f"{what} has unknown fields {', '.join(map(_show, extra[:5]))}")


def _show(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
