"""Finds ops by module name and backends by entry point: the only importer by name.

Listing imports none of the backends' libraries. A plugin that cannot be imported, was written for
another API or claims a taken name never breaks `import portable` or somebody else's call: it is
kept with its error, shown by `doctor`, and raises when it is asked for by name.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import threading
import traceback
import warnings
from dataclasses import dataclass, field
from typing import Any

from portable.backend import API_VERSION, ArrayFamily, Backend, Implementation, Missing
from portable.errors import BackendMissingError, PluginError, UnknownNameError
from portable.op import Op

GROUP = "portable.backends"


@dataclass(slots=True)
class Registered:
    """One name of the entry-point group.

    Attributes:
        name: the backend's name.
        origin: distribution and object it comes from, for messages.
        backend: the loaded backend, or None when `error` tells why not.
        error: what went wrong, as an exception.
        missing: why it cannot be used here, or None when it can.
    """

    name: str
    origin: str
    backend: Backend | None = None
    error: Exception | None = None
    missing: Missing | None = None
    implementations: dict[str, Implementation | None] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether it is loaded and nothing is missing."""
        return self.backend is not None and self.missing is None

    @property
    def why(self) -> str:
        """One phrase why it is not usable; "" when it is."""
        if self.error is not None:
            return _last_line(self.error)
        return self.missing.reason if self.missing else ""


_state: dict[str, Registered] | None = None
_lock = threading.RLock()


def registered() -> dict[str, Registered]:
    """Every backend by name, usable or not."""
    global _state
    if _state is None:
        with _lock:
            if _state is None:
                _state = _discover()
    return _state


def refresh() -> None:
    """Look for backends again (a plugin was installed or a test added one)."""
    global _state
    with _lock:
        _state = None
        _owner_of_family.cache_clear()


def register(backend: Backend) -> None:
    """Add a backend by hand, for this process: for notebooks and tests.

    Raises:
        PluginError: the name is taken or the API version does not fit.
    """
    known = registered()
    if backend.name in known:
        raise PluginError(
            f"backend {backend.name!r} is registered already by {known[backend.name].origin}; "
            "unregister it first or choose another name"
        )
    entry = Registered(backend.name, f"register({type(backend).__name__})")
    _admit(entry, backend)
    if entry.error is not None:
        raise entry.error
    with _lock:
        known[backend.name] = entry
        _owner_of_family.cache_clear()


def unregister(name: str) -> None:
    """Remove a backend from this process."""
    with _lock:
        entry = registered().pop(name, None)
        if entry is not None and getattr(entry.backend, "hardware", None) is not None:
            from portable.hwdb import load

            load.remove_folder(entry.origin)
        _owner_of_family.cache_clear()


def usable() -> list[Registered]:
    """Backends that can run here, the preferred ones first."""
    found = [entry for entry in registered().values() if entry.usable]
    return sorted(found, key=lambda e: (-_loaded(e).priority, e.name))


def backend(name: str) -> Backend:
    """A usable backend by name.

    Raises:
        UnknownNameError: no such backend.
        PluginError: it is broken; the original error is the cause.
        BackendMissingError: it is not usable here; carries the reason and the install line.
    """
    entry = registered().get(name)
    if entry is None:
        raise UnknownNameError(
            "backend", name, registered(), "Installed plugins are listed by `portable doctor`."
        )
    if entry.error is not None:
        if isinstance(entry.error, PluginError):
            raise entry.error
        raise PluginError(
            f"backend {name!r} ({entry.origin}) is broken: {entry.why}"
        ) from entry.error
    if entry.missing is not None:
        raise BackendMissingError(name, entry.missing.reason, entry.missing.install)
    return _loaded(entry)


def implementation(entry: Registered, op: str) -> Implementation | None:
    """A backend's implementation of an op; one that cannot be imported is kept as its error.

    Raises:
        PluginError: the implementation's import fails; the original error is the cause.
    """
    if op not in entry.implementations:
        try:
            entry.implementations[op] = _loaded(entry).implementation(op)
        except Exception as error:
            raise PluginError(
                f"implementation of {op} in backend {entry.name!r} cannot be imported: "
                f"{_last_line(error)}"
            ) from error
    return entry.implementations[op]


def families() -> dict[str, ArrayFamily]:
    """Array families by name, of every usable backend."""
    return {family.name: family for entry in usable() for family in _loaded(entry).array_families()}


def families_on(device: str) -> dict[str, ArrayFamily]:
    """Array families of the usable backends that drive a device; preferred backends first."""
    known = families()
    found: dict[str, ArrayFamily] = {}
    for entry in usable():
        own = _loaded(entry)
        if any(d.id == device for d in own.devices()):
            found |= {name: known[name] for name in own.families if name in known}
    return found


def family_of_type(array_type: type) -> ArrayFamily | None:
    """The family a type belongs to, by the names in its MRO; nothing is imported to ask."""
    return _owner_of_family(array_type)


@functools.cache
def _owner_of_family(array_type: type) -> ArrayFamily | None:
    names = {f"{c.__module__.partition('.')[0]}.{c.__qualname__}" for c in array_type.__mro__}
    for entry in registered().values():
        if entry.backend is None:
            continue
        for family in entry.backend.array_families():
            if names.intersection(family.types):
                return family
    return None


@functools.cache
def op_names() -> tuple[str, ...]:
    """Names of all ops: the modules of `portable.ops`."""
    package = importlib.import_module("portable.ops")
    found = (m.name for m in pkgutil.iter_modules(package.__path__))
    return tuple(sorted(name for name in found if not name.startswith("_")))


@functools.cache
def op(name: str) -> Op:
    """An op by name.

    Raises:
        UnknownNameError: no such op.
    """
    if name not in op_names():
        raise UnknownNameError("op", name, op_names())
    found: Op = importlib.import_module(f"portable.ops.{name}").OP
    return found


def _discover() -> dict[str, Registered]:
    import importlib.metadata  # late: importing portable must be fast

    found: dict[str, Registered] = {}
    seen: set[tuple[str, str]] = set()
    for point in importlib.metadata.entry_points(group=GROUP):
        if (point.name, point.value) in seen:
            continue  # one distribution visible twice on sys.path
        seen.add((point.name, point.value))
        origin = f"{point.dist.name if point.dist else 'unknown distribution'}: {point.value}"
        if point.name in found:
            first = found[point.name]
            first.backend = None
            first.error = PluginError(
                f"two backends are named {point.name!r}: {first.origin} and {origin}. "
                "Uninstall one of the two distributions."
            )
            continue
        found[point.name] = entry = Registered(point.name, origin)
        try:
            _admit(entry, point.load())
        except Exception as error:
            entry.error = error
    for entry in found.values():
        if entry.error is not None:
            warnings.warn(
                f"backend {entry.name!r} ({entry.origin}) is left out: {entry.why}",
                RuntimeWarning,
                stacklevel=4,
            )
    return found


def _admit(entry: Registered, candidate: Any) -> None:
    version = getattr(candidate, "api_version", None)
    if version != API_VERSION:
        entry.error = PluginError(
            f"backend {entry.name!r} ({entry.origin}) was written for API version {version}; "
            f"this portable has version {API_VERSION}. Install matching versions."
        )
        return
    entry.backend = candidate
    try:
        _add_hardware(entry, candidate)
        entry.missing = candidate.why_missing()
    except Exception as error:
        entry.backend, entry.error = None, error


def _add_hardware(entry: Registered, candidate: Any) -> None:
    """Entries that the backend brings for the hardware database."""
    hardware = getattr(candidate, "hardware", None)
    folder = hardware() if hardware is not None else None
    if folder is not None:
        from portable.hwdb import load

        load.add_folder(entry.origin, folder)


def _loaded(entry: Registered) -> Backend:
    assert entry.backend is not None, entry.name
    return entry.backend


def _last_line(error: BaseException) -> str:
    return traceback.format_exception_only(error)[-1].strip()
