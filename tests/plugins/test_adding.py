"""Follows docs/adding.md: its blocks become files and commands, in an empty folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```(\w+) (\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(section):
    """(language, file or "", text) of a section's blocks."""
    text = (ROOT / "docs" / "adding.md").read_text("utf-8")
    found = [
        (lang, file, body) for lang, name, file, body in BLOCK.findall(text) if name == section
    ]
    assert found, section
    return found


def run(command, folder, environment):
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def follow(section, folder, environment):
    """Everything a section says; the output of each command."""
    said = {}
    for language, file, body in blocks(section):
        if language == "sh":
            for line in body.strip().splitlines():
                said[line] = run(line, folder, environment)
        else:
            place = folder / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(body, encoding="utf-8")
    return said


@pytest.fixture
def clean(tmp_path):
    """A new environment that sees this one's libraries (and portable), and its variables."""
    place = tmp_path / "venv"
    venv.create(place, with_pip=False)
    (site,) = (place / "lib").glob("python*/site-packages")
    libraries = [p for p in sys.path if p.endswith("site-packages")]
    lines = [f"import site; site.addsitedir({p!r})" for p in libraries]
    (site / "libraries.pth").write_text("\n".join(lines) + "\n")
    for name in ("portable", "pytest", "pip"):
        script = place / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{place}/bin/python" -m {name} "$@"\n')
        script.chmod(0o755)
    environment = {
        "PATH": f"{place / 'bin'}:/usr/bin:/bin",
        "PORTABLE_DB": str(tmp_path / "records.sqlite"),
        "HOME": str(tmp_path),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "COLUMNS": "200",
        **{k: v for k, v in os.environ.items() if k.startswith(("OMP_", "LD_", "NUMBA_"))},
    }
    return site, environment


def test_a_backend_from_an_empty_folder(tmp_path, clean):
    site, environment = clean
    folder = tmp_path / "empty"
    folder.mkdir()
    before = {p.name for p in site.iterdir()}
    said = follow("backend", folder, environment)
    assert "acme conforms at level core" in said["portable conformance acme"]
    lists = [out for line, out in said.items() if line == "portable plugin list"]
    assert "portable-acme" not in lists[-1]  # one key: the last run, after uninstalling
    assert "passed" in said[next(line for line in said if line.startswith("pytest"))]
    badge = json.loads((folder / "badge.json").read_text())
    assert badge["conforms"]
    assert {c["op"] for c in badge["counts"]} >= {"swiglu"}
    assert {p.name for p in site.iterdir()} - before <= {"__pycache__"}


@pytest.fixture
def checkout(tmp_path, clean):
    """A copy of the repository's code, which its own commands see first."""
    copy = tmp_path / "checkout"
    copy.mkdir()
    skip = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("portable", "ops", "backends", "hwdb"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=skip)
    (copy / "bench").mkdir()
    shutil.copytree(ROOT / "bench" / "suites", copy / "bench" / "suites")
    return copy, {**clean[1], "PYTHONPATH": str(copy)}


def test_an_op_in_a_copy_of_the_repository(checkout):
    copy, environment = checkout
    said = follow("op", copy, environment)
    outputs = "\n".join(said.values())
    assert "numpy conforms at level hostile" in outputs
    assert "[5.]" in outputs
    assert "numpy" in outputs


def test_a_device_in_a_copy_of_the_repository(checkout):
    copy, environment = checkout
    said = follow("device", copy, environment)
    assert "acme-one" in said['python -m portable hw find "Acme One 16GB"']
