"""The command line: what a person sees, and errors without a traceback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


COMMANDS = [
    "doctor", "calibrate", "bench", "tune", "explain", "report", "hw", "crosscompile",
    "conformance", "workload", "records", "plugin", "speed-of-light",
]  # fmt: skip


def run(*words, ok=True, cwd=ROOT):
    done = subprocess.run(
        [sys.executable, "-m", "portable", *words],
        capture_output=True, text=True, cwd=cwd, check=False, timeout=240,
        env={"COLUMNS": "200", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT),
             "PORTABLE_DB": ":memory:", "HOME": os.environ.get("HOME", "/tmp")},
    )  # fmt: skip
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_every_command_of_the_design_is_there():
    text = run("--help")
    for command in COMMANDS:
        assert re.search(rf"^\s+{command}\s", text, re.MULTILINE), command


def test_doctor_names_every_backend_with_reason_and_install_line():
    text = run("doctor")
    for name in ("numpy", "torch", "jax", "opencl", "triton", "cuda"):
        assert re.search(rf"^ {name} ", text, re.MULTILINE), text
    assert "datasheet:" in text or "not in the hardware database" in text
    assert "portable calibrate" in text


def test_explain_and_speed_of_light():
    text = run("explain", "matmul", "512x512", "512x512", "--dtype", "f16")
    assert "->" in text
    assert "refused" in text
    text = run("explain", "softmax", "64x128", "--hardware", "H200 SXM")
    assert "on H200" in text
    assert "nothing was measured there" in text
    text = run("speed-of-light", "matmul", "8192x8192", "8192x8192", "--dtype", "bf16",
               "--hardware", "H200", "--hardware", "MI300X")  # fmt: skip
    assert "compute" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("explain", "matmul", "4x4", "5x5"), "both must be the same k"),
        (("explain", "matmull", "4x4"), "Did you mean 'matmul'"),
        (("explain", "matmul", "4xq"), "is no shape"),
        (("speed-of-light", "sum", "4x4", "--hardware", "H999"), "unknown"),
        (("bench", "--workload", "no-such"), "unknown workload"),
        (("conformance", "nobody"), "unknown backend"),
        (("conformance", "numpy", "--level", "odd"), "unknown level"),
        (("tune", "--budget", "soon"), "is no time"),
        (("report", "missing.jsonl"), "is no file"),
    ],
)
def test_mistakes_get_one_clear_error(words, message):
    assert message in run(*words, ok=False)


def test_bench_then_report(tmp_path):
    out = run("bench", "--workload", "bert-base", "--op", "layer_norm", "--limit", "1",
              "--budget", "0.2", "--backend", "numpy", "--backend", "torch",
              "--out", str(tmp_path / "r.jsonl"), cwd=tmp_path)  # fmt: skip
    assert "layer_norm" in out
    assert "numpy" in out
    text = run("report", "r.jsonl", "--html", "r.html", "--csv", "r.csv", cwd=tmp_path)
    assert "r.html is written" in text
    assert (tmp_path / "r.csv").read_text().count("\n") >= 3
