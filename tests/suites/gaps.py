"""Known gaps of the peers' suites: `gaps.toml` names each test with its reason.

A test that is listed and passes is an error too: the line must go.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

BACKENDS = ("numpy", "torch", "jax", "opencl[pocl]", "opencl[intel]")
"""The CPU backends that the suites run on."""


def known(suite: str, backend: str) -> dict[str, str]:
    """Test -> reason, for everybody and for this backend."""
    table = tomllib.loads((Path(__file__).parent / "gaps.toml").read_text("utf-8"))
    found = dict(table.get(suite, {}).get("all", {}))
    return found | table.get(suite, {}).get(backend, {})


def usable(backend: str) -> None:
    """Skips where the backend, or the runtime, is not here."""
    from portable import registry
    from portable.errors import PortableError

    name, _, runtime = backend.partition("[")
    try:
        runtimes = {d.runtime for d in registry.backend(name).devices()}
    except PortableError as error:
        pytest.skip(str(error))
    if runtime and runtime.removesuffix("]") not in runtimes:
        pytest.skip(f"no {backend} here")


def judge(tests: Mapping[str, Callable[[], None]], gaps: Mapping[str, str]) -> list[str]:
    """What is wrong: failures that are no known gap, gaps that are closed."""
    wrong = []
    for name, run in tests.items():
        try:
            run()
        except Exception as error:
            if name not in gaps:
                said = " ".join(str(error).split())[:300]
                wrong.append(f"{name}: {type(error).__name__}: {said}")
        else:
            if name in gaps:
                wrong.append(f"{name} passes now: delete its line in gaps.toml ({gaps[name]})")
    return wrong
