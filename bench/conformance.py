"""Conformance of every backend, runtime and example plugin, in pieces that can be resumed.

    python -m bench.conformance                    run what is missing, one process per backend
    python -m bench.conformance jax --seconds 250  one backend, begin no new piece after 250 s
    python -m bench.conformance --write            docs/conformance.md from what has run

A piece is one op in one dtype on one runtime. Its counts go to build/conformance.jsonl at once,
with a hash of the implementation, the op and the kit: a piece whose sources changed runs again.
Triton runs on its interpreter and the CUDA sources on an emulation of the device (tests/cuda). The
plugins of examples/ are taken from there without being installed.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import hashlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
STATE = ROOT / "build" / "conformance.jsonl"
BACKENDS = ("numpy", "torch", "jax", "opencl", "numba", "iree", "triton", "cuda")
PLUGINS = ("numba", "iree")
LEVEL = dict.fromkeys(BACKENDS, "hostile") | {"triton": "core"}
"""The interpreter needs half a minute for a piece at level hostile, a device milliseconds."""
INTERPRETED = {"TRITON_INTERPRET": "1", "PORTABLE_TRITON_INTERPRETER": "1"}


def main() -> None:
    """Run or write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backends", nargs="*", help="default: all, one process each")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--ops", default="", help="only these, separated by commas")
    parser.add_argument("--write", action="store_true")
    wish = parser.parse_args()
    if wish.write:
        from bench.conformance_table import write

        write(list(results().values()))
    elif len(wish.backends) == 1:
        one_backend(wish.backends[0], wish.seconds, wish.ops)
    else:
        for name in wish.backends or BACKENDS:
            limits = ["--seconds", str(wish.seconds), "--ops", wish.ops]
            command = [sys.executable, "-m", "bench.conformance", name, *limits]
            subprocess.run(command, cwd=ROOT, check=False)


def one_backend(name: str, seconds: float, ops: str) -> None:
    """Runs its pieces that have not run, until the time is over."""
    begin = time.monotonic()
    warnings.simplefilter("ignore")  # NumPy's, about the values of hostile cases
    if name == "triton":
        os.environ.update(INTERPRETED)
    prepare(name)
    have, left = results(), 0
    for piece in pieces(name, ops.split(",") if ops else []):
        if key(piece) in have and holds(have[key(piece)], piece):
            continue
        if time.monotonic() - begin > seconds:
            left += 1
            continue
        found = run(piece)
        STATE.parent.mkdir(exist_ok=True)
        with STATE.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
        said = " ".join(f"{n} {s}" for s, n in found["totals"].items())
        print(f"{found['candidate']} {piece['op']} {piece['dtype']}: {said}, "
              f"{found['seconds']} s", flush=True)  # fmt: skip
        for failure in found["failures"][:5]:
            print("  FAILED", json.dumps(failure), flush=True)
    print(f"{name}: {left} pieces left", flush=True)


def prepare(name: str) -> None:
    """Makes a backend known that is not installed here, or has no device of its own."""
    from portable import registry

    if name in PLUGINS and name not in registry.registered():
        sys.path.insert(0, str(ROOT / "examples" / f"portable-{name}"))
        registry.register(__import__(f"portable_{name}").backend)
    if name == "cuda":
        from bench.emulated_cuda import Emulated

        registry.unregister("cuda")
        registry.register(Emulated(ROOT / "build" / "emulation"))


def pieces(name: str, ops: list[str]) -> Iterator[dict[str, Any]]:
    """Every op and dtype on every runtime, and the contract."""
    from portable import registry
    from portable.conformance.runner import subjects

    backend = registry.backend(name)
    common = {"backend": name, "level": LEVEL[name], "versions": dict(backend.versions())}
    if not ops:
        yield {**common, "candidate": name, "op": "-", "dtype": "-", "source": kit("")}
    for subject in subjects(backend, "", ops or None, None):
        source = kit(subject.op.name) + _source(subject.implementation)
        for dtype in dtypes_of(subject.op):
            yield {**common, "candidate": subject.candidate, "op": subject.op.name,
                   "dtype": dtype, "source": source}  # fmt: skip


def dtypes_of(op: Any) -> list[str]:
    """All dtypes of an op's cases."""
    from portable import cases

    return list(dict.fromkeys(d for case in op.cases() for d in cases.dtypes_of(op, case)))


def owed(name: str, found: list[dict[str, Any]]) -> tuple[int, int]:
    """How many of a candidate's pieces have not run, and how many ran with older sources."""
    from portable import registry

    backend: Any = registry.registered()[name].backend
    missing = old = 0
    have = {(p["op"], p["dtype"]): p["source"] for p in found}
    for op in backend.ops():
        source = kit(op) + _source(backend.implementation(op))
        for dtype in dtypes_of(registry.op(op)):
            missing += (op, dtype) not in have
            old += have.get((op, dtype), source) != source
    return missing, old


@functools.cache
def kit(op: str) -> str:
    """Hash of what decides about right and wrong: the kit, the op, its cases (not how they are
    spelled)."""
    from portable import registry
    from portable.records.source import module_files

    files = [*(ROOT / "portable" / "conformance").glob("*.py")]
    files += [ROOT / "portable" / f for f in ("cases.py", "check.py")]
    digest = hashlib.sha256()
    if op:
        used = module_files(ROOT / "portable" / "ops" / f"{op}.py", "portable.ops")
        files += [f for f in used if not f.name.endswith("cases.py")]
        digest.update(repr(registry.op(op).cases()).encode())
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _build_for(piece: dict[str, Any]) -> None:
    from bench.emulated_cuda import prebuild
    from portable import registry
    from portable.conformance import LEVELS

    levels = LEVELS[: LEVELS.index(piece["level"]) + 1]
    prebuild(registry.backend("cuda"), piece["op"], piece["dtype"], levels)


def _source(implementation: Any) -> str:
    from portable.records.source import source_hash

    return source_hash(getattr(implementation, "module", implementation))


def key(piece: dict[str, Any]) -> tuple[str, str, str]:
    """What tells pieces apart."""
    return piece["candidate"], piece["op"], piece["dtype"]


def holds(found: dict[str, Any], piece: dict[str, Any]) -> bool:
    """Whether a result is of the same sources and of no lower level."""
    from portable.conformance import LEVELS

    enough = LEVELS.index(found["level"]) >= LEVELS.index(piece["level"])
    return enough and bool(found["source"] == piece["source"])


def results() -> dict[tuple[str, str, str], dict[str, Any]]:
    """The last result of each piece."""
    lines = STATE.read_text("utf-8").splitlines() if STATE.exists() else []
    return {key(found): found for found in map(json.loads, lines)}


def run(piece: dict[str, Any]) -> dict[str, Any]:
    """The piece with its counts, failures and refusals."""
    from portable.conformance import conform
    from portable.conformance.contract import Contract
    from portable.conformance.result import Result

    start = time.monotonic()
    if piece["op"] == "-":
        from portable import registry

        outcomes = [Contract(registry.backend(piece["backend"])).run()]
    else:
        if piece["backend"] == "cuda":
            _build_for(piece)
        done = conform(piece["candidate"], ops=[piece["op"]], level=piece["level"],
                       dtypes=[piece["dtype"]])  # fmt: skip
        outcomes = [o for o in done.outcomes if o.op != "-"]
    result = Result(piece["backend"], piece["level"], outcomes)
    badge = result.to_json()
    refused: dict[str, int] = {}
    for outcome in outcomes:
        for reason in outcome.reasons if outcome.status == "refused" else ():
            refused[reason] = refused.get(reason, 0) + 1
    return {
        **piece, "totals": badge["totals"], "levels": badge["levels"],
        "failures": badge["failures"], "refused": refused,
        "seconds": round(time.monotonic() - start, 1),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }  # fmt: skip


if __name__ == "__main__":
    main()
