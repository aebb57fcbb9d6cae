"""The record store's SQLite file: opened, judged, set aside when it is broken."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

APPLICATION_ID = 0x706F7274  # "port", in the header of our files
SCHEMA_VERSION = 1
BUSY_SECONDS = 10.0
"""How long a writer waits for another one."""

_SCHEMA = f"""
CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    op TEXT NOT NULL,
    device TEXT NOT NULL,
    backend TEXT NOT NULL,
    status TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX records_by_op ON records (op, device);
CREATE TABLE facts (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    updated TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""


class Foreign(Exception):
    """A sound SQLite file that is not ours, or of a newer version."""


def is_corrupt(error: sqlite3.Error) -> bool:
    """Whether the file itself is broken, not only out of reach."""
    name = getattr(error, "sqlite_errorname", "") or ""
    return name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT"))


def connect(path: Path) -> sqlite3.Connection:
    """The store at `path`, created when it is not there.

    Raises:
        Foreign: the file is a database of somebody else, or of a newer version of portable.
        sqlite3.Error, OSError: it is broken or out of reach.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        if not _is_ours(connection):
            _create(connection)
        _use_wal(connection)
        # A killed process loses nothing committed; only a power cut may lose the last commits.
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def memory() -> sqlite3.Connection:
    """An empty store in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.executescript(_SCHEMA)
    return connection


def snapshot(path: Path) -> sqlite3.Connection:
    """What can be read of the store at `path`, copied into memory. Writes nothing."""
    copy = memory()
    for options in ("mode=ro", "mode=ro&immutable=1"):
        # immutable: a folder where not even the shared-memory file can be made.
        try:
            with contextlib.closing(
                sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True, timeout=1.0)
            ) as source:
                if _is_ours(source):
                    copy_rows(source, copy)
                    return copy
        except (sqlite3.Error, Foreign):
            continue
    return copy


def _is_ours(connection: sqlite3.Connection) -> bool:
    """True for a store, False for an empty file."""
    application, version, tables = _signature(connection)
    if application == APPLICATION_ID and version == SCHEMA_VERSION and tables:
        return True
    if application == APPLICATION_ID and version > SCHEMA_VERSION:
        raise Foreign(f"it is of a newer version of portable (schema {version})")
    if application or version or tables:
        raise Foreign("it is the database of another program")
    return False


def _signature(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Application id, schema version and number of tables, all of one moment.

    One by one, they would straddle the commit of a process that creates the store meanwhile, and
    look like the file of another program.
    """
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        if alone:
            connection.execute("ROLLBACK")
    return application, version, tables


def _create(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        if not _is_ours(connection):  # another process may have been faster
            for statement in filter(None, map(str.strip, _SCHEMA.split(";"))):
                connection.execute(statement)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Readers and a writer at the same time. SQLite does not wait for this switch by itself."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return  # where WAL cannot be had, SQLite keeps its older journal: slower, as safe
        except sqlite3.OperationalError as error:
            busy = getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; takes the write lock at once, so that two writers queue."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def rescue(path: Path) -> sqlite3.Connection:
    """The rows of a broken store that can still be read, from both ends, in memory."""
    copy = memory()
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path)) as source:
        copy_rows(source, copy)
    return copy


def copy_rows(source: sqlite3.Connection, copy: sqlite3.Connection) -> None:
    """Copy all rows that can be read, reading from both ends."""
    for table, columns in (
        ("records", "digest, op, device, backend, status, body"),
        ("facts", "kind, key, value, updated"),
    ):
        marks = ", ".join("?" * len(columns.split(",")))
        insert = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})"
        order = "id" if table == "records" else "kind, key"
        for direction in ("", "DESC"):
            ordered = ", ".join(f"{name} {direction}" for name in order.split(", "))
            try:
                for row in source.execute(f"SELECT {columns} FROM {table} ORDER BY {ordered}"):
                    copy.execute(insert, row)
                break  # all of them; the other direction is for what lies behind a broken page
            except (sqlite3.DatabaseError, OverflowError, UnicodeError):
                continue


def set_aside(path: Path, inode: int) -> Path | None:
    """Rename a broken store and its journals; the new name, or None if it was done already."""
    with _lock(path):
        try:
            if path.stat().st_ino != inode:
                return None  # another process has done it: a new file is in its place
        except FileNotFoundError:
            return None
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{os.getpid()}")
        path.rename(aside)
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
        return aside


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """One process at a time; without effect where the system has no flock."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.with_name(path.name + ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
