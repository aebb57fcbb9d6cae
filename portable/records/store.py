"""The record store: an SQLite file that many processes and threads share, and that never fails.

Where the file cannot be used, the store works in memory and says so once. Nothing is opened before
the first use. Content is data: it is checked when read, and never executed or unpickled.
"""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from portable import plain
from portable.errors import RecordError
from portable.records.record import Record, utc_now

if TYPE_CHECKING:
    import sqlite3

ENVIRONMENT = "PORTABLE_DB"
"""A path, ":memory:" (this process only) or "off" (nothing is remembered)."""

_T = TypeVar("_T")


class StoreWarning(UserWarning):
    """The store's file cannot be used as asked; what was done instead."""


def default_location() -> str:
    """PORTABLE_DB, or `records.db` in the user's cache folder."""
    chosen = os.environ.get(ENVIRONMENT, "")
    if chosen:
        return chosen
    import platformdirs

    return str(Path(platformdirs.user_cache_dir("portable", appauthor=False)) / "records.db")


class Store:
    """Records and small facts that outlive the process.

    Thread-safe; a child process after a fork opens its own connection.

    Args:
        location: a path, ":memory:" or "off"; None means PORTABLE_DB or the user's cache folder.
    """

    def __init__(self, location: str | os.PathLike[str] | None = None) -> None:
        self.location = os.fspath(location) if location is not None else default_location()
        self.skipped: dict[int, str] = {}
        """Rows that could not be read as records, with the reason."""
        self._generation = 0
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._in_memory = self.location == ":memory:"
        self._path = Path(self.location).expanduser().absolute()
        self._inode = 0
        self._data_version = 0
        self._parsed: dict[int, Record] = {}
        _STORES.add(self)

    @property
    def off(self) -> bool:
        """Whether nothing is remembered."""
        return self.location == "off"

    @property
    def path(self) -> Path | None:
        """The file in use; None in memory or switched off."""
        return None if self.off or self._in_memory else self._path

    @property
    def generation(self) -> int:
        """A number that grows with every change this process knows of: cheap, no look at the disk.

        `refresh` takes in what other processes have written.
        """
        return self._generation

    def refresh(self) -> bool:
        """Whether another process has written since the last look; raises `generation` if so."""
        if self.off or self._in_memory:
            return False
        before = self._generation

        def look(connection: sqlite3.Connection) -> None:
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if version != self._data_version:
                self._data_version = version
                self._generation += 1

        self._run(look)
        return self._generation != before

    def add(self, records: Iterable[Record]) -> int:
        """Store records, all or none of them; how many were not there yet."""
        rows = [
            (r.digest, r.problem.op, r.device.name, r.backend, r.status, plain.dump(r.to_json()))
            for r in records
        ]
        if self.off or not rows:
            return 0

        def insert(connection: sqlite3.Connection) -> int:
            before = connection.total_changes
            with _transaction(connection):
                connection.executemany(
                    "INSERT OR IGNORE INTO records (digest, op, device, backend, status, body)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    rows,
                )
            return connection.total_changes - before

        return self._changed(self._run(insert))

    def records(
        self,
        op: str | None = None,
        device: str | None = None,
        backend: str | None = None,
        status: str | None = None,
    ) -> list[Record]:
        """Records in the order stored; `device` is the name that the driver reports.

        A row that cannot be read is left out and named in `skipped`.
        """
        if self.off:
            return []
        wanted = {"op": op, "device": device, "backend": backend, "status": status}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given)
        query = f"SELECT id FROM records{' WHERE ' + where if where else ''} ORDER BY id"

        def select(connection: sqlite3.Connection) -> list[Record]:
            ids = [row[0] for row in connection.execute(query, tuple(given.values()))]
            found = (self._parse(connection, row) for row in ids)
            return [record for record in found if record is not None]

        return self._run(select)

    def _parse(self, connection: sqlite3.Connection, row: int) -> Record | None:
        if row in self._parsed:
            return self._parsed[row]
        if row in self.skipped:
            return None
        found = connection.execute("SELECT body FROM records WHERE id = ?", (row,)).fetchone()
        try:
            if found is None or not isinstance(found[0], str):
                raise RecordError("the row has no text")
            self._parsed[row] = Record.from_json(plain.parse(found[0]))
        except RecordError as error:
            self.skipped[row] = str(error)
            return None
        return self._parsed[row]

    def put_fact(self, kind: str, key: str, value: Any) -> None:
        """Remember a small JSON value under (kind, key); replaces an older one.

        Raises:
            RecordError: the value is not plain, finite JSON data.
        """
        try:
            text = plain.dump(value)
        except (TypeError, ValueError) as error:
            raise RecordError(f"fact {kind}/{key} is not JSON data: {error}") from None
        if self.off:
            return

        def put(connection: sqlite3.Connection) -> None:
            with _transaction(connection):
                connection.execute(
                    "INSERT OR REPLACE INTO facts (kind, key, value, updated) VALUES (?, ?, ?, ?)",
                    (kind, key, text, utc_now()),
                )

        self._run(put)
        self._changed(1)

    def fact(self, kind: str, key: str, default: Any = None) -> Any:
        """The value under (kind, key), or the default."""
        return self.facts(kind, key).get(key, default)

    def facts(self, kind: str, key: str | None = None) -> dict[str, Any]:
        """All values of a kind, by key. A value that is not JSON is left out."""
        if self.off:
            return {}
        query = "SELECT key, value FROM facts WHERE kind = ?"
        values: tuple[str, ...] = (kind,)
        if key is not None:
            query, values = query + " AND key = ?", (kind, key)
        rows = self._run(lambda c: c.execute(query + " ORDER BY key", values).fetchall())
        found: dict[str, Any] = {}
        for name, text in rows:
            with contextlib.suppress(RecordError):
                found[name] = plain.parse(f'{{"value":{text}}}')["value"]
        return found

    def forget_fact(self, kind: str, key: str) -> None:
        """Drop the value under (kind, key), if there is one."""
        if self.off:
            return
        query = "DELETE FROM facts WHERE kind = ? AND key = ?"
        self._changed(self._run(lambda c: c.execute(query, (kind, key)).rowcount))

    def close(self) -> None:
        """Let go of the file; the next use opens it again. What is only in memory is lost."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be half gone
            self.close()

    # --- opening, and what to do when it fails -------------------------------------------------

    def _changed(self, count: int) -> int:
        if count:
            self._generation += 1
        return count

    def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Do the work; when the file fails, repair or leave it and do the work again."""
        import sqlite3

        with self._lock:
            for _ in range(2):
                try:
                    return work(self._open())
                except sqlite3.DatabaseError as error:
                    if self._in_memory:
                        raise
                    self._recover(error)
            return work(self._open())

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and (self._in_memory or self._still_there()):
            return self._connection
        self.close()
        self._parsed.clear()
        self.skipped.clear()
        self._generation += 1
        self._connection = self._connect()
        return self._connection

    def _inode_now(self) -> int:
        """Of the file at the path; 0 where there is none."""
        try:
            return self._path.stat().st_ino
        except OSError:
            return 0

    def _still_there(self) -> bool:
        """Whether the open file is the one at the path: it may have been renamed or deleted."""
        return self._inode_now() == self._inode

    def _connect(self) -> sqlite3.Connection:
        import sqlite3

        from portable.records import _sqlite

        if self._in_memory:
            return _sqlite.memory()
        for _ in range(3):
            # Of the file before it is judged: what is broken now may be replaced by the time it is
            # set aside.
            inode = self._inode_now()
            try:
                connection = _sqlite.connect(self._path)
                self._inode = inode or self._inode_now()
                (self._data_version,) = connection.execute("PRAGMA data_version").fetchone()
                return connection
            except _sqlite.Foreign as why:
                other = self._path.with_name(
                    f"{self._path.name}.portable-v{_sqlite.SCHEMA_VERSION}"
                )
                self._warn(f"{self._path} is left alone: {why}. Records are kept in {other}")
                self._path = other
            except sqlite3.DatabaseError as error:
                corrupt = _sqlite.is_corrupt(error)
                failure = self._set_aside(error, inode) if corrupt else error
                if failure is not None:
                    return self._to_memory(failure)
            except OSError as error:
                return self._to_memory(error)
        return self._to_memory(OSError("no usable file after three attempts"))

    def _recover(self, error: sqlite3.DatabaseError) -> None:
        from portable.records import _sqlite

        self.close()
        failure = self._set_aside(error, self._inode) if _sqlite.is_corrupt(error) else error
        if failure is not None:
            self._connection = self._to_memory(failure)

    def _to_memory(self, error: Exception) -> sqlite3.Connection:
        from portable.records import _sqlite

        self._warn(
            f"the record store {self._path} cannot be used ({error}): new records are kept in"
            f" memory only. Set {ENVIRONMENT} to a file that can be written"
        )
        self._in_memory = True
        self._parsed.clear()
        return _sqlite.snapshot(self._path)

    def _set_aside(self, error: Exception, inode: int) -> Exception | None:
        """Rename the broken file and carry what can be read into a new one; why that failed."""
        import sqlite3

        from portable.records import _sqlite

        try:
            rescued = _sqlite.rescue(self._path)
            aside = _sqlite.set_aside(self._path, inode)
            if aside is None:
                return None  # another process was faster
            fresh = _sqlite.connect(self._path)
            closing = contextlib.closing
            with closing(fresh), closing(rescued), _sqlite.transaction(fresh):
                _sqlite.copy_rows(rescued, fresh)
        except (OSError, sqlite3.Error, _sqlite.Foreign) as failure:
            return failure
        self._warn(
            f"the record store {self._path} is broken ({error}). It was renamed to {aside};"
            " what could be read of it was carried over"
        )
        return None

    def _warn(self, message: str) -> None:
        warnings.warn(message, StoreWarning, stacklevel=2)

    def _before_fork(self) -> None:
        """SQLite connections must not cross a fork: close it; both sides open it again on use."""
        self._lock.acquire()
        if not self._in_memory:
            self.close()

    def _after_fork(self) -> None:
        self._lock.release()


def _transaction(connection: sqlite3.Connection) -> contextlib.AbstractContextManager[None]:
    from portable.records import _sqlite

    return _sqlite.transaction(connection)


_STORES: weakref.WeakSet[Store] = weakref.WeakSet()
_DEFAULT: dict[str, Store] = {}
_HELD: list[Store] = []


def default_store() -> Store:
    """The store of this process, at PORTABLE_DB or in the user's cache folder."""
    location = default_location()
    if location not in _DEFAULT:
        _DEFAULT.setdefault(location, Store(location))
    return _DEFAULT[location]


def _before_fork() -> None:
    _HELD[:] = list(_STORES)
    for store in _HELD:
        store._before_fork()


def _after_fork() -> None:
    for store in _HELD:
        store._after_fork()
    _HELD.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
