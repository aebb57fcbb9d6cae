"""Counts per backend and suite: python -m tests.suites."""

from __future__ import annotations

import functools
import warnings

import portable
from tests.suites import gaps, numpy_matmul, onnx_nodes


def main() -> None:
    warnings.simplefilter("ignore")
    onnx = {t.name: functools.partial(onnx_nodes.run, t)
            for tests in onnx_nodes.cases().values() for t in tests}  # fmt: skip
    for suite in ("onnx", "numpy"):
        for backend in gaps.BACKENDS:
            tests = onnx if suite == "onnx" else numpy_matmul.tests(backend)
            known = gaps.known(suite, backend)
            with portable.using(backend=backend):
                wrong = gaps.judge(tests, known)
            passed = len(tests) - len(known) - len([w for w in wrong if "passes now" not in w])
            print(f"{suite:6} {backend:14} {passed} passed, {len(known)} known gaps")
            for line in wrong:
                print(f"  {line}")


if __name__ == "__main__":
    main()
