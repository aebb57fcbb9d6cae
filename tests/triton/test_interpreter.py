"""Every op's cases on Triton's interpreter, against the float64 references and their bounds.

One child process runs them all (see `interpreter.py`): in this process kernels may already have
been decorated to compile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is not installed")
pytest.importorskip("torch", reason="torch is not installed")

SCRIPT = Path(__file__).with_name("interpreter.py")
ROOT = SCRIPT.parents[2]
LIGHT = (
    "softmax", "log_softmax", "layer_norm", "rms_norm", "add_rms_norm", "rope", "gelu", "swiglu",
    "sum", "mean", "max", "argmax", "cumsum", "transpose", "embedding", "cross_entropy", "matmul",
    "linear",
)  # fmt: skip
HEAVY = ("attention", "quantized_matmul")
CORE = ["--levels", "core", "--dtypes", "float32"]
SPLIT_TILE = {
    "variant": "tile", "split_k": 2, "block_m": 16, "block_n": 32, "block_k": 16, "group_m": 2,
}  # fmt: skip
RUNS = {
    # name: (ops, arguments)
    "rows": (LIGHT, ["--levels", "core,hostile", "--dtypes", "float32,bfloat16"]),
    "heavy": (HEAVY, ["--levels", "core", "--dtypes", "float32,float16,float8_e4m3fn,int8"]),
    # few filters run direct, deep 3x3 ones as Winograd, the rest as an implicit product
    "convolution": (("conv2d",), CORE),
    "double": (("matmul", "softmax", "sum", "attention"), ["--levels", "core", "--dtypes",
                                                           "float64"]),
    # what small cases do not reach by themselves: rows in several tiles, work cut into parts
    "long rows": (("softmax", "log_softmax", "layer_norm", "add_rms_norm"),
                  [*CORE, "--set", '{"block_n": 16}']),
    "split rows": (("sum", "max", "argmax"), [*CORE, "--set", '{"split": 4, "block_n": 16}']),
    "parts": (("cumsum",), [*CORE, "--set", '{"parts": 4, "block_n": 16}']),
    "split K": (("linear",), [*CORE, "--set", json.dumps(SPLIT_TILE)]),
    "split keys": (("attention",), [*CORE, "--set", '{"split": 4, "block_n": 16}']),
}  # fmt: skip


@pytest.fixture(scope="module")
def results():
    """What each run printed, by (run, op)."""
    found = {}
    for run, (ops, arguments) in RUNS.items():
        done = subprocess.run(
            [sys.executable, str(SCRIPT), ",".join(ops), *arguments],
            capture_output=True, text=True, timeout=900, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        for line in done.stdout.splitlines():
            result = json.loads(line)
            found[run, result["op"]] = result
    return found


@pytest.mark.parametrize(("run", "op"), [(run, op) for run, (ops, _) in RUNS.items() for op in ops])
def test_cases_are_within_the_bound(results, run, op):
    result = results[run, op]
    assert result["failures"] == []
    assert result["refused"] == {}
    assert result["ran"] >= 5


def test_every_op_of_the_backend_is_covered(results):
    from portable.backends.triton import backend

    assert {op for _, op in results} == set(backend.ops())
