"""Frozen choice tables: the same choice on every rank and machine, from one file.

Written by `portable tune --freeze FILE`, read by `using(choices=FILE)`. Plain JSON.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portable.errors import RecordError
from portable.op import Problem

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Frozen:
    """One fixed choice.

    Attributes:
        candidate: name of the candidate ("opencl[intel]").
        config: its tuning parameters.
    """

    candidate: str
    config: dict[str, Any] = field(default_factory=dict)


@functools.lru_cache(maxsize=8)
def load(path: str) -> dict[Problem, Frozen]:
    """The table of a file, read once per process.

    Raises:
        RecordError: there is no such file, or it is no choice table; says where.
    """
    from portable import records

    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise RecordError(f"{path}: format {data['format']} (this portable reads {FORMAT})")
        return {
            records.problem_from_json(row["problem"]): Frozen(row["candidate"], row["config"])
            for row in data["choices"]
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(
            f"{path} is no choice table of `portable tune --freeze`: {error}"
        ) from None


def save(path: str, choices: Iterable[tuple[Problem, Frozen]]) -> int:
    """Write a table; returns the number of choices."""
    from portable import records

    rows = [
        {"problem": records.problem_to_json(p), "candidate": c.candidate, "config": c.config}
        for p, c in choices
    ]
    text = json.dumps({"format": FORMAT, "choices": rows}, indent=1)
    Path(path).write_text(text + "\n", encoding="utf-8")
    return len(rows)
