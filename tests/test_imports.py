"""Importing is light, the public names are there, the layers hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import portable
from portable import registry

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "jax", "triton", "cupy", "pyopencl", "numpy", "rich", "typer", "plotly")


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout


def test_importing_imports_no_array_library():
    loaded = run(f"import sys, portable; print([m for m in {HEAVY} if m in sys.modules])")
    assert loaded.strip() == "[]"


def test_listing_backends_imports_none_of_their_libraries():
    code = (
        "import sys, portable.registry as r; r.registered(); "
        "print('torch' in sys.modules, 'jax' in sys.modules)"
    )
    assert run(code).strip() == "False False"


@pytest.mark.parametrize("op", registry.op_names())
def test_every_op_is_public(op):
    assert callable(getattr(portable, op, None)), f"add {op} to portable/__init__.py"
    assert registry.op(op).name == op


def test_the_public_surface_is_there():
    names = (
        "explain bind using backends devices hardware speed_of_light tune profile errors register"
    )
    for name in names.split():
        assert hasattr(portable, name), name


def test_backends_is_callable_after_its_packages_were_imported():
    import portable.backends.numpy

    assert {b.name for b in portable.backends()} >= {"numpy", "torch", "jax", "opencl", "cuda"}
    assert portable.backends.numpy.backend.name == "numpy"


def test_layers_hold():
    pytest.importorskip("importlinter")
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
