"""Runs each launch of a plan in a program of its own, built with a sanitizer: threads of a block
are OS threads, every buffer has its exact size."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from portable.backends.cuda._runtime import Pointer
from portable.backends.cuda._targets import Target
from tests.cuda.emulation import EmulatedRuntime, build

BUILDS = {
    "address": ("-fsanitize=address",),
    "thread": ("-fsanitize=thread",),
}
_FLAGS = (
    "-std=c++20",
    "-O1",
    "-g1",
    "-w",
    "-fno-strict-aliasing",
    "-pthread",
    "-fno-omit-frame-pointer",
)


class SanitizerError(AssertionError):
    """What the sanitizer reported."""


class SanitizedRuntime(EmulatedRuntime):
    """`sanitizer` is "address" or "thread"."""

    def __init__(self, target: Target, cache: Path, sanitizer: str, before: str = "") -> None:
        super().__init__(target, cache, "#define EMULATE_THREADS 1\n" + before)
        self.sanitizer = sanitizer
        self._owners: list[np.ndarray] = []

    def empty(self, shape: Any, dtype: str) -> np.ndarray:
        out = super().empty(shape, dtype)
        self._owners.append(_owner(out))
        return out

    def pointer(self, array: np.ndarray) -> int:
        self._own(array)
        return super().pointer(array)

    def _own(self, array: np.ndarray) -> None:
        owner = _owner(array)
        if not any(known is owner for known in self._owners):
            self._owners.append(owner)

    def kernel(self, file: str, name: str, macros: Any, block: int, shared: int = 0) -> Any:
        main = f"#define EMULATE_MAIN emulate_launch_{name}_0\n"
        source = main + self.source([(file, name, tuple(sorted(macros.items())))])
        program = build(source, self.cache, (*_FLAGS, *BUILDS[self.sanitizer]))

        def launch(grid: tuple[int, int, int], *args: Any) -> None:
            for arg in args:
                if isinstance(arg, np.ndarray):
                    self._own(arg)
            self.launched.append(name)
            self._run(program, name, (*grid, block, shared), args)

        return launch

    def _run(self, program: Path, name: str, head: tuple[int, ...], args: tuple[Any, ...]) -> None:
        values = [self._argument(arg) for arg in args]
        used = sorted({buffer for buffer, _ in values if buffer >= 0})
        owners = [self._owners[i] for i in used]
        parts = [struct.pack("<7q", *head, len(owners), len(values))]
        for owner in owners:
            parts += [struct.pack("<q", owner.nbytes), owner.tobytes("A")]
        for buffer, value in values:
            parts.append(struct.pack("<qq", used.index(buffer) if buffer >= 0 else -1, value))
        with tempfile.NamedTemporaryFile(suffix=".launch", delete=False) as file:
            file.write(b"".join(parts))
        try:
            run_program(program, name, file.name)
            data = Path(file.name).read_bytes()
        finally:
            Path(file.name).unlink()
        for owner in owners:
            mine, data = data[: owner.nbytes], data[owner.nbytes :]
            if owner.flags.writeable:
                flat = np.frombuffer(mine, owner.dtype).reshape(owner.shape, order=_order(owner))
                owner[...] = flat

    def _argument(self, arg: Any) -> tuple[int, int]:
        """(buffer, offset) of memory, (-1, bits) of a number."""
        if isinstance(arg, np.ndarray | Pointer):
            place = int(arg) if isinstance(arg, Pointer) else super().pointer(arg)
            for i, owner in enumerate(self._owners):
                first = super().pointer(owner)
                if first <= place < first + max(owner.nbytes, 1):
                    return i, place - first
            return -1, 0  # an empty array: nothing may read it
        if isinstance(arg, int):
            return -1, arg
        return -1, struct.unpack("<q", struct.pack("<d", arg))[0]


def _owner(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _order(array: np.ndarray) -> str:
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def run_program(program: Path, name: str, file: str) -> None:
    """Run; a report of the sanitizer is an error. TSan needs a fixed address layout."""
    fixed = [found, "-R"] if (found := shutil.which("setarch")) else []
    done = subprocess.run(
        [*fixed, str(program), file],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=0"},
    )
    if done.returncode or "runtime error" in done.stderr:
        raise SanitizerError(f"{name}:\n{done.stderr[:6000]}")
