"""Every test module has a record store of its own, and sees the backends as installed."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True, scope="module")
def _module_store(tmp_path_factory):
    """No test reads or writes the user's records; verdicts of the gate are shared in a module."""
    yield from _store_at(tmp_path_factory.mktemp("store") / "records.sqlite")


@pytest.fixture
def known_machine(monkeypatch):
    """This machine's processor is in the hardware database: as itself, else as another."""
    from portable import hwdb, machine
    from portable.hwdb.spec import build

    find = hwdb.find
    monkeypatch.setattr(hwdb, "find", lambda info: find(info) or build("cpu-amd-zen5", info))
    machine.forget()
    yield
    machine.forget()


@pytest.fixture
def own_store(tmp_path):
    """A store of its own for a test that adds records."""
    yield from _store_at(tmp_path / "records.sqlite")


def _store_at(path):
    from portable import engine

    before = os.environ.get("PORTABLE_DB")
    os.environ["PORTABLE_DB"] = str(path)
    engine.refresh()
    yield path
    if before is None:
        del os.environ["PORTABLE_DB"]
    else:
        os.environ["PORTABLE_DB"] = before
    engine.refresh()


@pytest.fixture
def backend():
    """Registers backends for one test: `backend(fake)`; they are gone afterwards."""
    import portable

    added = []

    def add(candidate):
        portable.register(candidate)
        added.append(candidate.name)
        return candidate

    yield add
    for name in added:
        portable.unregister(name)
