"""Broken files, full disks, killed writers: nothing committed is lost and nothing is fatal."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import pytest

from portable.records import Store, StoreWarning, _sqlite
from tests.records.make import record

MANY = [record(i) for i in range(1, 60)]


def filled(path):
    store = Store(path)
    store.add(MANY)
    store.put_fact("k", "a", 1)
    store.close()
    return path


def aside_of(path):
    names = (p.name for p in path.parent.glob(f"{path.name}.corrupt-*"))
    return [n for n in names if not n.endswith(("-wal", "-shm"))]


def test_garbage_in_the_place_of_a_store_is_set_aside(tmp_path):
    path = tmp_path / "records.db"
    path.write_bytes(b"this is no database" * 100)
    store = Store(path)
    with pytest.warns(StoreWarning, match="renamed"):
        store.add([record(1)])
    assert store.records() == [record(1)]
    (aside,) = aside_of(path)
    assert (tmp_path / aside).read_bytes() == b"this is no database" * 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Store(path).records() == [record(1)], "the next one finds a sound store"


@pytest.mark.parametrize("where", ["middle", "end", "header page", "index"])
def test_what_can_be_read_of_a_broken_store_is_carried_over(tmp_path, where):
    path = filled(tmp_path / "records.db")
    data = bytearray(path.read_bytes())
    pages = len(data) // 4096
    assert pages > 10
    page = {"middle": pages // 2, "end": pages - 2, "header page": 0, "index": 3}[where]
    start = page * 4096 + (100 if page == 0 else 0)
    data[start : start + 3996] = os.urandom(3996)
    path.write_bytes(data)
    store = Store(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = store.records()
        store.add([record(1000)])
        assert record(1000) in store.records()
    if where in ("middle", "end"):
        assert len(found) >= 40, f"only {len(found)} of {len(MANY)} rescued"
    if len(found) + len(store.skipped) < len(MANY):
        assert aside_of(path), "set aside, not deleted"
        assert any(issubclass(w.category, StoreWarning) for w in caught)


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "theirs.db"
    theirs = sqlite3.connect(path)
    theirs.execute("CREATE TABLE precious (x)")
    theirs.execute("INSERT INTO precious VALUES (42)")
    theirs.commit()
    theirs.close()
    before = path.read_bytes()
    store = Store(path)
    with pytest.warns(StoreWarning, match="another program"):
        store.add([record(1)])
    assert path.read_bytes() == before
    assert store.records() == [record(1)]
    assert store.path == tmp_path / "theirs.db.portable-v1"
    with pytest.warns(StoreWarning):
        assert Store(path).records() == [record(1)], "found again beside it"


def test_a_newer_versions_store_is_left_alone(tmp_path):
    path = filled(tmp_path / "records.db")
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    store = Store(path)
    with pytest.warns(StoreWarning, match="newer version of portable"):
        store.add([record(1)])
    assert store.records() == [record(1)]
    newer = sqlite3.connect(path)
    assert newer.execute("SELECT count(*) FROM records").fetchone() == (59,)
    newer.close()


def test_a_folder_that_cannot_be_made_means_memory_and_one_warning(tmp_path):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "records.db")
    with pytest.warns(StoreWarning, match="in memory only"):
        store.add([record(1)])
    store.add([record(2)])  # a second warning would be an error here
    store.put_fact("k", "a", 1)
    assert store.records() == [record(1), record(2)]
    assert store.path is None


def read_only_check(path):
    """Runs in a child without root's rights: root may write anywhere."""
    code = """
import os, sys, warnings
sys.path.insert(0, os.getcwd())
import sqlite3
from portable.records import Store, _sqlite
from tests.records.make import record
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    store = Store(sys.argv[1])
    before = len(store.records())
    store.add([record(1000)]); store.add([record(1001)])
print(before, len(store.records()), store.fact("k", "a"), len(caught), store.path)
"""
    return subprocess.run(
        [sys.executable, "-B", "-c", code, str(path)], capture_output=True, text=True, timeout=60
    )


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs POSIX rights")
def test_a_read_only_folder_can_be_read_and_new_records_stay_in_memory():
    checkout = [Path.cwd(), *Path.cwd().parents]
    if os.getuid() == 0 and not all(p.stat().st_mode & 0o001 for p in checkout):
        pytest.skip("another user cannot read the checkout here")
    with tempfile.TemporaryDirectory() as place:  # pytest's own folders are closed to others
        Path(place).chmod(0o755)
        _read_only(Path(place) / "shared")


def _read_only(folder):
    path = filled(folder / "records.db")
    path.chmod(0o444)
    folder.chmod(0o555)
    try:
        done = read_only_check(path)
    finally:
        folder.chmod(0o755)
    assert done.stdout.split() == ["59", "61", "1", "1", "None"], done.stderr
    assert sorted(p.name for p in folder.iterdir()) == ["records.db"], "nothing was left there"


def test_a_full_disk_keeps_what_was_committed_and_goes_on_in_memory(tmp_path):
    store = Store(tmp_path / "records.db")
    store.add([record(1)])
    connection = store._open()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")  # "database or disk is full"
    with pytest.warns(StoreWarning, match="full"):
        store.add(MANY[1:])
    assert len(store.records()) == 59
    assert Store(store.location).records() == [record(1)]


@pytest.mark.parametrize("message", ["locking protocol", "disk I/O error", "database is locked"])
def test_locking_trouble_means_memory(tmp_path, monkeypatch, message):
    def fail(path):
        raise sqlite3.OperationalError(message)

    path = filled(tmp_path / "records.db")
    monkeypatch.setattr(_sqlite, "connect", fail)
    store = Store(path)
    with pytest.warns(StoreWarning, match=message):
        assert len(store.records()) == 59, "what is there can still be read"
    assert store.add([record(1000)]) == 1


def test_trouble_in_the_middle_of_a_write_loses_nothing(tmp_path, monkeypatch):
    store = Store(tmp_path / "records.db")
    store.add([record(1)])
    good, calls = _sqlite.transaction, []

    def fail_once(connection):
        calls.append(1)
        if len(calls) == 1:
            raise sqlite3.OperationalError("disk I/O error")
        return good(connection)

    monkeypatch.setattr(_sqlite, "transaction", fail_once)
    with pytest.warns(StoreWarning, match="disk I/O"):
        assert store.add([record(2)]) == 1
    assert store.records() == [record(1), record(2)]


def test_a_store_deleted_or_replaced_under_us_is_opened_again(tmp_path):
    path = tmp_path / "records.db"
    store = Store(path)
    store.add([record(1)])
    for file in tmp_path.iterdir():
        file.unlink()
    store.add([record(2)])
    assert store.records() == [record(2)]
    assert Store(path).records() == [record(2)]


def test_two_processes_that_find_the_same_broken_file_rename_it_once(tmp_path):
    path = tmp_path / "records.db"
    path.write_bytes(b"garbage!" * 1000)
    code = (
        "import os, sys, warnings; sys.path.insert(0, os.getcwd())\n"
        "warnings.simplefilter('ignore')\n"
        "from portable.records import Store; from tests.records.make import record\n"
        "Store(sys.argv[1]).add([record(int(sys.argv[2]))])"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(i)]) for i in range(1, 7)
    ]
    assert [child.wait(timeout=60) for child in children] == [0] * 6
    assert len(aside_of(path)) == 1
    assert sorted(r.problem.tensors[0].shape[0] for r in Store(path).records()) == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]


def test_a_store_that_another_process_repaired_meanwhile_is_not_set_aside(tmp_path, monkeypatch):
    path = tmp_path / "records.db"
    path.write_bytes(b"garbage!" * 1000)
    real = _sqlite.connect

    def overtaken(place):
        try:
            return real(place)
        except sqlite3.DatabaseError:
            monkeypatch.setattr(_sqlite, "connect", real)
            with pytest.warns(StoreWarning, match="is broken"):
                Store(path).add([record(1)])
            raise

    monkeypatch.setattr(_sqlite, "connect", overtaken)
    Store(path).add([record(2)])  # a warning would be an error here
    assert len(aside_of(path)) == 1
    assert Store(path).records() == [record(1), record(2)]


class _Interrupted:
    """A connection in whose first look at the file another process creates the store."""

    def __init__(self, path):
        self._connection = sqlite3.connect(path, isolation_level=None)
        self.creator = threading.Thread(target=lambda: _sqlite.connect(path).close())

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, statement):
        if "user_version" in statement and self.creator.ident is None:
            self.creator.start()
            self.creator.join(timeout=0.3)
        return self._connection.execute(statement)


def test_a_file_that_becomes_a_store_while_we_look_is_not_another_programs(tmp_path):
    connection = _Interrupted(tmp_path / "records.db")
    assert _sqlite._is_ours(connection) is False
    connection.creator.join()
    assert _sqlite._is_ours(connection) is True


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_killed_writers_lose_nothing_that_was_committed(tmp_path):
    """8 writers, killed at random moments: 200 rounds, fewer on a machine where 200 take longer
    than 40 s. With PORTABLE_KILL_ROUNDS exactly so many, however long they take."""
    asked = os.environ.get("PORTABLE_KILL_ROUNDS")
    rounds, seconds = (asked, "3600") if asked else ("200", "40")
    command = [sys.executable, "-W", "error", "-m", "tests.records.killed_writers"]
    done = subprocess.run(
        [*command, str(tmp_path / "r.db"), rounds, "1", seconds],
        capture_output=True, text=True, timeout=3700,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["rounds"] == int(rounds) if asked else result["rounds"] >= 10
    assert result["lost"] == 0
    assert result["sound"] == "ok"
    assert result["acknowledged"] > result["rounds"], "the writers did write"
