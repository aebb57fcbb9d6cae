from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading

import pytest

from portable.errors import RecordError
from portable.records import Store, default_store
from portable.records.store import default_location
from tests.records.make import record


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "deep" / "records.db")
    yield found
    found.close()


def test_nothing_is_touched_before_the_first_use(tmp_path):
    Store(tmp_path / "sub" / "x.db")
    assert list(tmp_path.iterdir()) == []


def test_importing_opens_nothing_and_loads_no_sqlite():
    code = "import sys, portable.records as r; r.Store(); print('sqlite3' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"


def test_records_come_back_filtered_and_once(store):
    a, b, c = record(1), record(2, backend="torch"), record(3, samples=(), status="crash")
    assert store.add([a, b, c]) == 3
    assert store.add([a]) == 0, "the same record is stored once"
    assert store.records() == [a, b, c]
    assert store.records(backend="torch") == [b]
    assert store.records(op="matmul", device=a.device.name) == [a, b, c]
    assert store.records(op="linear") == []
    assert store.records(status="crash") == [c]
    assert store.add([]) == 0


def test_another_store_on_the_same_file_sees_them(store, tmp_path):
    store.add([record(1)])
    store.put_fact("roofs", "cpu", {"dram": 1.5})
    again = Store(store.location)
    assert again.records() == [record(1)]
    assert again.fact("roofs", "cpu") == {"dram": 1.5}
    again.close()


def test_facts(store):
    assert store.fact("gate", "x") is None
    assert store.fact("gate", "x", 7) == 7
    store.put_fact("gate", "x", [1, "a", None, True])
    store.put_fact("gate", "x", {"ok": False})
    store.put_fact("gate", "y", 2)
    store.put_fact("health", "x", 3)
    assert store.fact("gate", "x") == {"ok": False}, "the newer one replaces"
    assert store.facts("gate") == {"x": {"ok": False}, "y": 2}
    store.forget_fact("gate", "x")
    assert store.facts("gate") == {"y": 2}
    for bad in (object(), float("nan"), {1, 2}):
        with pytest.raises(RecordError, match="not JSON"):
            store.put_fact("gate", "z", bad)


def test_generation_grows_with_every_change_and_refresh_sees_other_processes(store):
    start = store.generation
    store.add([record(1)])
    first = store.generation
    assert first > start
    store.add([record(1)])
    assert store.generation == first, "nothing new"
    store.put_fact("k", "a", 1)
    assert store.generation > first
    store.refresh()
    now = store.generation
    assert store.refresh() is False
    other = Store(store.location)
    other.add([record(2)])
    assert store.generation == now, "no look at the disk unless asked"
    assert store.refresh() is True
    assert store.generation > now
    other.close()


def test_memory_and_off(monkeypatch):
    memory, off = Store(":memory:"), Store("off")
    memory.add([record(1)])
    memory.put_fact("k", "a", 1)
    assert memory.records() == [record(1)]
    assert memory.fact("k", "a") == 1
    assert memory.path is None
    off.add([record(1)])
    off.put_fact("k", "a", 1)
    off.forget_fact("k", "a")
    assert off.records() == []
    assert off.facts("k") == {}
    assert off.refresh() is False
    assert off.off


def test_location_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("PORTABLE_DB", str(tmp_path / "mine.db"))
    assert default_location() == str(tmp_path / "mine.db")
    assert default_store() is default_store()
    assert default_store().location == str(tmp_path / "mine.db")
    monkeypatch.setenv("PORTABLE_DB", "off")
    assert default_store().off
    monkeypatch.delenv("PORTABLE_DB")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_location().endswith("records.db")
    assert "portable" in default_location()


def test_a_row_that_is_no_record_is_skipped_with_its_reason(store):
    store.add([record(1), record(2)])
    raw = sqlite3.connect(store.location)
    body = json.dumps({**record(3).to_json(), "format": 99})
    for digest, text in (("d1", "not json"), ("d2", body), ("d3", None)):
        raw.execute(
            "INSERT INTO records (digest, op, device, backend, status, body)"
            " VALUES (?, 'matmul', 'd', 'b', 'ok', ?)",
            (digest, text if text is not None else b"\xff"),
        )
    raw.execute("INSERT INTO facts VALUES ('k', 'bad', 'x y', ''), ('k', 'good', '1', '')")
    raw.commit()
    raw.close()
    assert store.records() == [record(1), record(2)]
    assert sorted(store.skipped) == [3, 4, 5]
    assert "format is 99" in store.skipped[4]
    assert store.facts("k") == {"good": 1}


def test_sixteen_threads_share_one_store(store):
    errors = []

    def work(thread):
        try:
            for i in range(10):
                store.add([record(thread * 100 + i)])
                store.put_fact("k", f"{thread}-{i}", i)
                assert store.fact("k", f"{thread}-{i}") == i
                store.records(op="matmul")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(store.records()) == 160
    assert len(store.facts("k")) == 160


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_both_sides_of_a_fork_write(store, tmp_path):
    code = """
import os, sys
sys.path.insert(0, os.getcwd())
from portable.records import Store
from tests.records.make import record
store = Store(sys.argv[1])
memory = Store(":memory:")
store.add([record(1)]); memory.add([record(1)])
children = []
for i in range(4):
    pid = os.fork()
    if pid == 0:
        store.add([record(10 + i)])
        ok = len(store.records()) >= 2 and memory.records() == [record(1)]
        sys.stdout.flush()
        os._exit(0 if ok else 1)
    children.append(pid)
    store.add([record(20 + i)])
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
print(len(store.records()))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, store.location],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "9"
    assert len(store.records()) == 9


def test_opening_is_quick(tmp_path):
    """A first open costs little beyond what SQLite takes to create the tables: 1 ms (a Zen 5)."""
    import time

    from portable.records import _sqlite

    ours, bare = [], []
    for i in range(25):
        found = Store(tmp_path / f"{i}.db")
        start = time.process_time()
        found.records()
        ours.append(time.process_time() - start)
        found.close()
        start = time.process_time()
        connection = sqlite3.connect(tmp_path / f"bare-{i}.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(_sqlite._SCHEMA)
        bare.append(time.process_time() - start)
        connection.close()
    assert min(ours) < 5 * min(bare), (sorted(ours), sorted(bare))
