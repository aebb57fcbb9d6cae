"""What the host side of a kernel needs: memory, kernels, launches.

An op module plans against the `Runtime` protocol. `CupyRuntime` is the real one; the tests run the
same plans on the CPU, and `Collector` only notes which kernels a plan would build.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from portable import dtypes
from portable.backend import Kernel
from portable.backends.cuda._build import KernelVariant, Macros, assemble
from portable.backends.cuda._targets import Target, of_device
from portable.device import Device
from portable.errors import CompileError

Grid = tuple[int, int, int]
Launch = Callable[..., None]
"""`launch(grid, *args)`: args are arrays, pointers (Pointer), int (i64) and float (double)."""


class Pointer(int):
    """An address on the device."""


class Runtime(Protocol):
    """Memory and launches on one device, on the current stream."""

    target: Target

    def kernel(self, file: str, name: str, macros: Macros, block: int, shared: int = 0) -> Launch:
        """Build a kernel, ready to be launched with a fixed block size and shared memory."""
        ...

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        """New uninitialised memory, dense."""
        ...

    def pointer(self, array: Any) -> int:
        """Address of an array's first element."""
        ...


class CupyRuntime:
    """CuPy's: its memory pool, its compiler and cache, its current stream."""

    def __init__(self, device: Device) -> None:
        self.target = of_device(device)
        self._index = int(device.id.partition(":")[2] or 0)
        self._cache: dict[object, Launch] = {}

    def kernel(self, file: str, name: str, macros: Macros, block: int, shared: int = 0) -> Launch:
        """Compiled and loaded now, so that a later launch can be captured in a graph."""
        key = (file, name, tuple(sorted(macros.items())), block, shared)
        if key not in self._cache:
            self._cache[key] = self._build(file, name, macros, block, shared)
        return self._cache[key]

    def _build(self, file: str, name: str, macros: Macros, block: int, shared: int) -> Launch:
        import cupy
        import numpy as np

        source = assemble(file, self.target, macros)
        with cupy.cuda.Device(self._index):
            try:
                module = cupy.RawModule(code=source, options=("--std=c++17",))
                function = module.get_function(name)
                if shared > 48 << 10:
                    function.max_dynamic_shared_size_bytes = shared
            except cupy.cuda.compiler.CompileException as error:
                raise CompileError(f"{file} ({name})", str(error), source) from error

        def launch(grid: Grid, *args: Any) -> None:
            values = tuple(
                arg if isinstance(arg, cupy.ndarray)
                else np.uint64(arg) if isinstance(arg, Pointer)
                else np.int64(arg) if isinstance(arg, int)
                else np.float64(arg)
                for arg in args
            )  # fmt: skip
            function(grid, (block, 1, 1), values, shared_mem=shared)

        return launch

    def on_device(self, kernel: Kernel) -> Kernel:
        """The kernel with this device current, where there are several to choose from."""
        import cupy

        if int(cupy.cuda.runtime.getDeviceCount()) == 1:
            return kernel

        def on_this(*arrays: Any) -> Any:
            with cupy.cuda.Device(self._index):
                return kernel(*arrays)

        return on_this

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        """From CuPy's pool, which orders reuse on the current stream."""
        import cupy

        return cupy.empty(tuple(shape), dtypes.numpy_dtype(dtype))

    def pointer(self, array: Any) -> int:
        """Address of the first element (the lowest index, also under negative strides)."""
        return int(array.data.ptr)


_RUNTIMES: dict[str, CupyRuntime] = {}


def runtime(device: Device) -> CupyRuntime:
    """The one runtime of a device."""
    return _RUNTIMES.setdefault(device.id, CupyRuntime(device))


class Collector:
    """Notes the kernels a plan builds; computes nothing."""

    def __init__(self, target: Target, op: str = "", note: str = "") -> None:
        self.target, self.op, self.note = target, op, note
        self.variants: list[KernelVariant] = []

    def kernel(self, file: str, name: str, macros: Macros, block: int, shared: int = 0) -> Launch:
        """Note it. The result cannot be launched."""
        source = assemble(file, self.target, macros)
        self.variants.append(
            KernelVariant(
                self.op, name, file, tuple(sorted(macros.items())), source, block, shared, self.note
            )
        )

        def launch(grid: Grid, *args: Any) -> None:
            raise RuntimeError(f"{name} was only listed, not built for a device")

        return launch

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        """Nothing is ever computed here."""
        raise RuntimeError("a collector has no memory")

    def pointer(self, array: Any) -> int:
        """Nothing is ever computed here."""
        raise RuntimeError("a collector has no memory")
