"""sdist -> wheel -> a clean environment: nothing else notices a wheel that lacks a package."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SMOKE = """
import numpy as np, portable, sys
a = np.random.rand(16, 16).astype('f4')
assert abs(portable.matmul(a, a) - a @ a).max() < 1e-4
assert portable.hardware('H200 SXM').bandwidth > 4e12
assert 'numpy' in [b.name for b in portable.backends() if b.available]
print(portable.explain('softmax', a).choice.name, portable.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("build")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_holds_everything_and_adds_only_portable(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {n.split("/")[0] for n in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"portable"}
    for needed in (
        "portable/ops/matmul.py", "portable/backends/opencl/gemm.cl", "portable/hwdb/__init__.py",
        "portable/backends/cuda/_common.cuh", "portable/workloads/suites/bert-base.jsonl",
        "portable/py.typed",
    ):  # fmt: skip
        assert needed in names, needed
    assert any(n.startswith("portable/hwdb/devices/") and n.endswith(".toml") for n in names)
    assert not [n for n in names if n.startswith(("tests/", "bench/", "portable/tests/"))]


def test_it_runs_in_a_clean_environment(wheel, tmp_path):
    """Dependencies come from the running environment, the package only from the wheel."""
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    site = next((place / "lib").glob("python*/site-packages"))
    before = {p.name for p in site.iterdir()}
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-deps", str(wheel)], check=True, cwd=tmp_path
    )
    added = {p.name for p in site.iterdir()} - before
    assert {n for n in added if not n.endswith(".dist-info")} == {"portable"}
    libraries = [p for p in sys.path if p.endswith("site-packages")]
    only = "\n".join(
        ["import sys, importlib.util", f"extra = {libraries!r}", "sys.path += extra", SMOKE]
    )
    done = subprocess.run(
        [python, "-c", only], capture_output=True, text=True, cwd=tmp_path, check=False,
        env={"PORTABLE_DB": ":memory:", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert str(site) in done.stdout
