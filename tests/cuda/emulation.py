"""Runs the plans of backends/cuda on NumPy arrays: the same sources, built with emulate.h."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from portable import dtypes
from portable.backends.cuda._build import KernelVariant, body, digest, headers, prologue
from portable.backends.cuda._runtime import Pointer
from portable.backends.cuda._targets import Target

HEADER = Path(__file__).parent / "emulate.h"
GXX = shutil.which("g++")
FLAGS = ("-std=c++20", "-O1", "-fPIC", "-shared", "-w", "-fno-strict-aliasing")
BATCH = 24  # kernels built by one call of the compiler

Kernel = tuple[str, str, tuple[tuple[str, int | str], ...]]  # file, name, macros


class EmulatedRuntime:
    """The `Runtime` protocol on NumPy arrays. Keeps built objects in `cache`, counts launches."""

    def __init__(self, target: Target, cache: Path, before: str = "") -> None:
        self.target, self.cache, self.before = target, cache, before
        self.launched: list[str] = []
        self._entries: dict[Kernel, tuple[ctypes.CDLL, str]] = {}

    def prebuild(self, variants: Iterable[KernelVariant]) -> None:
        """Build many kernels with few calls of the compiler."""
        wanted = dict.fromkeys((v.file, v.kernel, v.macros) for v in variants)
        missing = [kernel for kernel in wanted if kernel not in self._entries]
        for first in range(0, len(missing), BATCH):
            self._load(missing[first : first + BATCH])

    def _load(self, kernels: list[Kernel]) -> None:
        library = ctypes.CDLL(str(build(self.source(kernels), self.cache)))
        for number, kernel in enumerate(kernels):
            self._entries[kernel] = library, f"{kernel[1]}_{number}"

    def source(self, kernels: list[Kernel]) -> str:
        """One text: each kernel in a namespace of its own, its macros undefined behind it."""
        parts = [prologue(self.target), self.before, HEADER.read_text()]
        parts.append(headers(file for file, _, _ in kernels))
        for number, (file, name, macros) in enumerate(kernels):
            parts.append(f"namespace n{number} {{\n{body(file, dict(macros))}\n}}")
            parts.append(f"EMULATE_ENTRY({name}_{number}, n{number}::{name})")
            parts += [f"#undef {macro}" for macro, value in macros if not isinstance(value, str)]
        return "\n".join(parts) + "\n"

    def kernel(self, file: str, name: str, macros: Any, block: int, shared: int = 0) -> Any:
        kernel = (file, name, tuple(sorted(macros.items())))
        if kernel not in self._entries:
            self._load([kernel])
        library, entry = self._entries[kernel]
        arity = getattr(library, f"emulate_arity_{entry}")()
        run = getattr(library, f"emulate_launch_{entry}")

        def launch(grid: tuple[int, int, int], *args: Any) -> None:
            assert len(args) == arity, f"{name} takes {arity} arguments, was given {len(args)}"
            values = [_argument(arg) for arg in args]
            pointers = (ctypes.c_void_p * arity)(
                *[ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in values]
            )
            self.launched.append(name)
            run(*grid, block, shared, pointers)

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
    """The shared object (or program) of a source, built once."""
    path = cache / digest(source + " ".join(flags))
    if path.exists():
        return path
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        text, out = Path(folder) / "kernel.cpp", Path(folder) / "kernel.bin"
        text.write_text(source)
        done = subprocess.run(
            [GXX or "g++", *flags, str(text), "-o", str(out)], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"g++ failed:\n{done.stderr[:4000]}")
        out.replace(path)
    return path
