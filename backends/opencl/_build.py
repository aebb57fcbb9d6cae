"""Building OpenCL programs: sources beside this file, one program per context and set of options.

Binaries are kept on disk per device, driver version, options and source, in the user's cache
folder (`portable/opencl-binaries`); drivers with a cache of their own (PoCL) use that. A damaged
or foreign file is built anew and replaced. `PORTABLE_OPENCL_CACHE=0` turns the files off.
"""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portable.backends.opencl import _runtime
from portable.errors import CompileError

if TYPE_CHECKING:
    import pyopencl as cl

_FOLDER = Path(__file__).parent
_programs: dict[tuple[int, tuple[str, ...], tuple[str, ...]], tuple[Any, Any]] = {}
_locks: dict[int, threading.Lock] = {}
"""One for each context: drivers build side by side, a driver its programs one after another."""
_OWN_CACHE = ("pocl", "oclgrind")
"""Runtimes with a kernel cache of their own, or for which one makes no sense."""


class _Quietly:
    """Without pyopencl's warnings: a build log that is not empty is no news to a user, and errors
    raise with the whole log.

    `warnings.catch_warnings` alone would put back, in one thread, what another one still needs.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._filters: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore", _runtime.load().CompilerWarning)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._filters.__exit__(None, None, None)


_QUIETLY = _Quietly()


@cache
def source(files: tuple[str, ...]) -> str:
    """The common header and the named files, in order."""
    return "\n".join((_FOLDER / name).read_text() for name in ("_common.cl", *files))


def program(context: cl.Context, files: tuple[str, ...], options: tuple[str, ...]) -> cl.Program:
    """The built program. Raises CompileError with source and log."""
    key = (context.int_ptr, files, options)
    with _locks.setdefault(context.int_ptr, threading.Lock()):
        if key not in _programs:
            # The context is kept with the program, so that its address stays its own.
            _programs[key] = (context, _built(context, files, ("-w", *options)))
        return _programs[key][1]


def _built(context: cl.Context, files: tuple[str, ...], options: tuple[str, ...]) -> cl.Program:
    cl = _runtime.load()
    text, device = source(files), context.devices[0]
    with _QUIETLY:
        file = _binary_file(device, text, options)
        if file is not None and (found := _from_file(context, file, options)) is not None:
            return found
        try:
            built = cl.Program(context, text).build(options=list(options), cache_dir=False)
        except cl.Error as error:
            name = f"{files[-1]} ({' '.join(options)})"
            raise CompileError(name, str(error), text) from None
        if file is not None:
            _keep(file, built.get_info(cl.program_info.BINARIES)[0])
        return built


def _binary_file(device: Any, text: str, options: tuple[str, ...]) -> Path | None:
    if os.environ.get("PORTABLE_OPENCL_CACHE") == "0":
        return None
    if _runtime.runtime_name(device.platform.name) in _OWN_CACHE:
        return None
    import platformdirs

    identity = (device.platform.version, device.name, device.version, device.driver_version)
    key = hashlib.sha256("\0".join((*identity, *options, text)).encode()).hexdigest()
    return Path(platformdirs.user_cache_dir("portable")) / "opencl-binaries" / f"{key}.bin"


def _from_file(context: cl.Context, file: Path, options: tuple[str, ...]) -> cl.Program | None:
    cl = _runtime.load()
    try:
        binary = file.read_bytes()
        digest, body = binary[:32], binary[32:]
        if hashlib.sha256(body).digest() != digest:
            return None
        return cl.Program(context, list(context.devices), [body]).build(options=list(options))
    except (OSError, cl.Error):
        return None


def _keep(file: Path, binary: bytes) -> None:
    """Written beside and moved into place: a reader never sees half a file."""
    partial = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(hashlib.sha256(binary).digest() + binary)
        partial.replace(file)
    except OSError:
        partial.unlink(missing_ok=True)
