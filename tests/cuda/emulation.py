"""Runs the plans of backends/cuda on NumPy arrays: the same sources, built with g++ by emulate.h."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from portable import dtypes
from portable.backends.cuda._build import assemble, digest
from portable.backends.cuda._runtime import Pointer
from portable.backends.cuda._targets import Target

HEADER = Path(__file__).parent / "emulate.h"
GXX = shutil.which("g++")
FLAGS = ("-std=c++20", "-O1", "-fPIC", "-shared", "-w", "-fno-strict-aliasing", "-march=native")


class EmulatedRuntime:
    """The `Runtime` protocol on NumPy arrays. Keeps built objects in `cache`, counts launches."""

    def __init__(self, target: Target, cache: Path, prologue: str = "") -> None:
        self.target, self.cache, self.prologue = target, cache, prologue
        self.launched: list[str] = []
        self._kernels: dict[Any, Any] = {}

    def kernel(self, file: str, name: str, macros: Any, block: int, shared: int = 0) -> Any:
        key = (file, name, tuple(sorted(macros.items())), block, shared)
        if key not in self._kernels:
            self._kernels[key] = self._build(file, name, macros, block, shared)
        return self._kernels[key]

    def source(self, file: str, name: str, macros: Any) -> str:
        before = self.prologue + HEADER.read_text()
        return assemble(file, self.target, macros, before) + f"\nEMULATE_ENTRY({name})\n"

    def _build(self, file: str, name: str, macros: Any, block: int, shared: int) -> Any:
        library = ctypes.CDLL(str(build(self.source(file, name, macros), self.cache)))
        arity = getattr(library, f"emulate_arity_{name}")()
        entry = getattr(library, f"emulate_launch_{name}")

        def launch(grid: tuple[int, int, int], *args: Any) -> None:
            assert len(args) == arity, f"{name} takes {arity} arguments, was given {len(args)}"
            values = [_argument(arg) for arg in args]
            pointers = (ctypes.c_void_p * arity)(
                *[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values]
            )
            self.launched.append(name)
            entry(*grid, block, shared, pointers)

        return launch

    def empty(self, shape: Any, dtype: str) -> np.ndarray:
        """Filled with 0xFF: NaN, so that what a kernel forgets to write shows."""
        out = np.empty(tuple(shape), dtypes.numpy_dtype(dtype))
        out.reshape(-1).view(np.uint8)[...] = 0xFF
        return out

    def pointer(self, array: np.ndarray) -> int:
        return array.__array_interface__["data"][0]


def _argument(arg: Any) -> Any:
    if isinstance(arg, np.ndarray):
        return ctypes.c_void_p(arg.__array_interface__["data"][0])
    if isinstance(arg, Pointer):
        return ctypes.c_void_p(int(arg))
    if isinstance(arg, int):
        return ctypes.c_longlong(arg)
    assert isinstance(arg, float), f"a kernel argument is {type(arg).__name__}"
    return ctypes.c_double(arg)


def build(source: str, cache: Path, flags: tuple[str, ...] = FLAGS) -> Path:
    """The shared object of a source, built once."""
    path = cache / f"{digest(source + ' '.join(flags))}.so"
    if path.exists():
        return path
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        text, out = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
        text.write_text(source)
        done = subprocess.run(
            [GXX or "g++", *flags, str(text), "-o", str(out)], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"g++ failed:\n{done.stderr[:4000]}")
        out.replace(path)
    return path
