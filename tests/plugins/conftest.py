"""Installs small distributions for one test: what pip would write, on sys.path."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class Site:
    """A folder on sys.path that takes distributions."""

    def __init__(self, folder):
        self.folder = folder

    def package(self, name, **files):
        """A package; file names without ".py" map to text."""
        for file, text in files.items():
            place = self.folder / name / f"{file}.py"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)

    def link(self, folder, *names):
        """Packages that lie somewhere in the repository."""
        for name in names:
            (self.folder / name).symlink_to(folder / name)

    def distribution(self, name, **entry_points):
        """Metadata with entry points of our group."""
        info = self.folder / f"{name.replace('-', '_')}-0.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
        lines = [f"{key} = {value}" for key, value in entry_points.items()]
        text = "\n".join(["[portable.backends]", *lines])
        (info / "entry_points.txt").write_text(text + "\n")
        refresh()

    def uninstall(self, name):
        info = self.folder / f"{name.replace('-', '_')}-0.1.dist-info"
        for file in info.iterdir():
            file.unlink()
        info.rmdir()
        refresh()


def refresh():
    from portable import engine, registry

    importlib.invalidate_caches()
    for name in [n for n, e in registry.registered().items() if not _ours(e)]:
        registry.unregister(name)
    registry.refresh()
    engine.refresh()
    registry.registered()  # looks now: warnings about broken plugins are given here


def _ours(entry):
    return entry.origin.startswith("portable-kernels")


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    yield Site(folder)
    monkeypatch.undo()
    for name in set(sys.modules) - before:
        if name.startswith(("portable_", "toylib", "fakelib")):
            del sys.modules[name]
    refresh()


@pytest.fixture
def toy(site):
    """The toy plugin, installed."""
    site.link(HERE / "toy", "portable_toy", "toylib")
    site.distribution("portable-toy", toy="portable_toy:backend")
    return site
