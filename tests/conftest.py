"""Every test session has a record store of its own, and sees the backends as installed."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_store(tmp_path, monkeypatch):
    """No test reads or writes the user's records, and none sees another test's."""
    from portable import engine

    monkeypatch.setenv("PORTABLE_DB", str(tmp_path / "records.sqlite"))
    engine.refresh()
    yield
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
