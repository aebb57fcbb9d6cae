"""Counts per backend and suite: python -m tests.suites [BACKEND ...] [--save build/suites.json]."""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import warnings
from collections import Counter
from pathlib import Path

import portable
from tests.suites import gaps, numpy_matmul, onnx_nodes


def main() -> None:
    """Prints, and keeps for the page of counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("backends", nargs="*", default=gaps.BACKENDS)
    parser.add_argument("--save", help="a JSON file; entries of other backends in it are kept")
    wish = parser.parse_args()
    warnings.simplefilter("ignore")
    found = [count(suite, b) for suite in ("onnx", "numpy") for b in wish.backends]
    if wish.save:
        place = Path(wish.save)
        kept = json.loads(place.read_text()) if place.exists() else []
        kept = [k for k in kept if k["backend"] not in wish.backends]
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(kept + found, indent=1) + "\n")


def count(suite: str, backend: str) -> dict:
    """How many tests of a suite pass on a backend, and why the others do not."""
    if suite == "onnx":
        tests = {t.name: functools.partial(onnx_nodes.run, t)
                 for tests in onnx_nodes.cases().values() for t in tests}  # fmt: skip
    else:
        tests = numpy_matmul.tests(backend)
    known = gaps.known(suite, backend)
    with portable.using(backend=backend):
        wrong = gaps.judge(tests, known)
    failed = [line for line in wrong if "passes now" not in line]
    passed = len(tests) - len(known) - len(failed)
    print(f"{suite:6} {backend:14} {passed} of {len(tests)} passed, {len(known)} known gaps",
          flush=True)  # fmt: skip
    for line in wrong:
        print(f"  {line}", flush=True)
    return {"suite": suite, "backend": backend, "tests": len(tests), "passed": passed,
            "failed": failed, "gaps": Counter(known.values()), "version": _version(suite),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat()}  # fmt: skip


def _version(suite: str) -> str:
    import importlib.metadata

    return importlib.metadata.version(suite)


if __name__ == "__main__":
    main()
