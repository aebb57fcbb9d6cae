"""Building OpenCL programs: sources beside this file, one program per context and set of options.

Binaries are cached on disk per device, driver, options and source: by PoCL itself in its own
kernel cache, for other drivers by pyopencl (`pyopencl-compiler-cache` in the user's cache folder).
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portable.backends.opencl import _runtime
from portable.errors import CompileError

if TYPE_CHECKING:
    import pyopencl as cl

_FOLDER = Path(__file__).parent
_programs: dict[tuple[int, tuple[str, ...], tuple[str, ...]], tuple[Any, Any]] = {}
_lock = threading.Lock()


@cache
def source(files: tuple[str, ...]) -> str:
    """The common header and the named files, in order."""
    return "\n".join((_FOLDER / name).read_text() for name in ("_common.cl", *files))


def program(
    context: cl.Context, files: tuple[str, ...], options: tuple[str, ...]
) -> cl.Program:
    """The built program. Raises CompileError with source and log."""
    key = (context.int_ptr, files, options)
    with _lock:
        if key not in _programs:
            cl = _runtime.load()
            text = source(files)
            try:
                built = cl.Program(context, text).build(options=["-w", *options])
            except cl.Error as error:
                raise CompileError(f"{files[-1]} ({' '.join(options)})", str(error), text) from None
            _programs[key] = (context, built)  # the context is kept: its address is the key
        return _programs[key][1]
