"""What a backend must offer. Ours and third-party ones meet the same protocols.

A backend is found by an entry point of the group `portable.backends` whose value names an object
with the attributes of `Backend` (most derive from `BackendBase`). Its package imports nothing but
the standard library and `portable` until `why_missing()` has returned None.

One op on one backend is an `Implementation`: usually the module `<backend package>/<op>.py`, with
three functions and a few optional constants. The file name is the registration.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from portable.device import Device
from portable.op import Problem, TensorSpec

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    import numpy as np

API_VERSION = 1
"""Version of these protocols. A plugin that names another major version is refused."""

Kernel = Callable[..., Any]
"""Compiled for one problem: takes the native arrays of the problem's operands, in order, and
returns the native result (a tuple when the op has several). It allocates its own output, follows
the caller's current stream, and does not wait for the device."""

Config = Mapping[str, int | float | str | bool]
"""Tuning parameters of one implementation: {"block_m": 64, "num_warps": 4}."""

PATHS = ("vendor language", "vendor library", "open standard", "dsl", "compiler", "reference")
"""The porting paths of a report: how code came to run on the device."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a backend cannot be used here.

    Attributes:
        reason: one phrase ("pyopencl is not installed").
        install: the command that brings it, or "".
    """

    reason: str
    install: str = ""


@runtime_checkable
class Implementation(Protocol):
    """One op on one backend (a module or an object).

    Optional attributes, with their defaults:
        DETERMINISTIC (True): the same input gives the same bits.
        DIFFERENTIABLE (False): keeps the array library's gradients (autograd).
        TRACEABLE (False): runs on the tracers of its array library (jax.jit, vmap, grad).
        LAYOUT_FREE (False): kernels are right for arrays of the problem's shapes and dtypes with
            any strides, gradient or trace state (a library's function itself): a bound call then
            checks shape and dtype only.
        SOURCES (()): names of kernel source files beside the module; their hash is part of a
            record's key.
        PATH: porting path when it differs from the backend's (torch.matmul is "vendor library").
    """

    def why_not(self, problem: Problem, device: Device) -> list[str]:
        """Reasons why this cannot compute the problem on the device; empty means it can.

        Phrases are "value (limit)": "dtype is float64 (takes float32, float16)".
        """
        ...

    def configs(self, problem: Problem, device: Device) -> Sequence[Config]:
        """Configs worth trying, the best guess first; [{}] when there is nothing to tune."""
        ...

    def compile(self, problem: Problem, device: Device, config: Config) -> Kernel:
        """Build the kernel. Raises CompileError with source and log."""
        ...


class ArrayFamily(Protocol):
    """One array library: how to look at its arrays and to hand them on."""

    name: str
    """Name of the family: "numpy", "torch", "jax", "cupy", "opencl"."""

    types: tuple[str, ...]
    """Array types as "package.Class" where package is the top-level one: "torch.Tensor". A value
    belongs to the family when a class of its MRO has such a name; nothing is imported to ask."""

    def key(self, array: Any) -> Hashable:
        """A cheap key: two arrays with equal keys have equal spec, device and constraints."""
        ...

    # Optional: key_of(kind: type) -> a faster key function for exactly that type, or None;
    # shape_and_dtype(array) -> just those two, for bound calls of LAYOUT_FREE implementations.

    def spec(self, array: Any) -> TensorSpec:
        """Shape, dtype and strides. Raises DTypeError or FamilyError for what nobody takes."""
        ...

    def device(self, array: Any) -> str:
        """Id of the device where the data lives ("cpu", "cuda:0")."""
        ...

    def constraints(self, array: Any) -> frozenset[str]:
        """What the call must keep: any of "differentiable", "traceable"."""
        ...

    def normalize(self, array: Any) -> Callable[[Any], Any] | None:
        """A step every such array needs before any kernel (byte order, subclass), or None."""
        ...

    def why_copy(self, spec: TensorSpec) -> str | None:
        """Why a host array of this spec cannot become one of this family without a copy."""
        ...

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """The array as NumPy, without a copy where possible; waits for pending work."""
        ...

    def from_host(self, array: np.ndarray[Any, Any], device: str) -> Any:
        """A NumPy array as one of this family on the device, without a copy where possible."""
        ...

    def from_dlpack(self, array: Any) -> Any:
        """An array of another family on the same device, by DLPack, without a copy."""
        ...


class Backend(Protocol):
    """A way to run code on devices.

    Optional methods, for what a plugin may bring besides code:
        priors() -> folder or None: records measured on named machines, as
            `folder/MACHINE/OP.jsonl` (one record a line, as `portable records export` writes
            them), of this backend only. They count like the priors that portable ships.
        hardware() -> folder or None: entries for the hardware database, as
            `folder/devices/*.toml` and `folder/architectures/*.toml` (fields: hwdb/README.md).
    Folders are pathlib paths or what `importlib.resources.files` gives.
    """

    name: str
    """Name used in `using(backend=...)`, records and reports; unique among all backends."""

    path: str
    """Porting path, one of PATHS."""

    api_version: int
    """The API_VERSION the backend was written for."""

    priority: int
    """Order of preference where evidence is missing or tied; higher is preferred. The safer one
    should be: vendors' libraries (torch 30, NumPy 40) before our own kernels (10 to 15)."""

    families: tuple[str, ...]
    """Array families its kernels take and return, the preferred one first. Arrays of another
    family are converted to the first one."""

    def why_missing(self) -> Missing | None:
        """Why it cannot be used here, or None. Cheap; imports no device library it can avoid."""
        ...

    def devices(self) -> Sequence[Device]:
        """Devices usable now; several `runtime`s may drive one physical device."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Library, compiler and driver versions: part of the key of its records."""
        ...

    def ops(self) -> Sequence[str]:
        """Names of the ops it has an implementation of."""
        ...

    def implementation(self, op: str) -> Implementation | None:
        """Its implementation of an op, or None. Imports the device library."""
        ...

    def array_families(self) -> Sequence[ArrayFamily]:
        """Families this backend brings (NumPy's by numpy, torch's by torch, ...)."""
        ...

    # Optional: roofs - an object with compute_roof(device, dtype) -> FLOP/s samples (DTypeError
    # where there is no such arithmetic) and stream(device, kind, nbytes) -> B/s samples for kind
    # "read", "write", "triad": micro-kernels for `portable calibrate`.

    # Optional: on_stream_of(family, device) - a context in which the backend's kernels queue on the
    # stream that the library of that array family is using on the device.

    def synchronize(self, device: Device) -> None:
        """Wait until all work on the device is done."""
        ...


class BackendBase:
    """Defaults for a backend that is a package with one module per op.

    Derive, set the class attributes, and put implementations beside `__init__.py`.
    """

    name: ClassVar[str]
    path: ClassVar[str]
    api_version: ClassVar[int] = API_VERSION
    priority: ClassVar[int] = 0
    families: ClassVar[tuple[str, ...]] = ("numpy",)
    requires: ClassVar[tuple[str, ...]] = ()
    """Importable names the backend needs."""
    distributions: ClassVar[tuple[str, ...]] = ()
    """Distributions whose versions are part of a record's key."""
    install: ClassVar[str] = ""
    """The command that installs what it needs."""

    def __init__(self) -> None:
        self._implementations: dict[str, Implementation | None] = {}

    @property
    def package(self) -> str:
        """Package that holds the implementations."""
        return type(self).__module__

    def why_missing(self) -> Missing | None:
        """Checks that what it `requires` can be imported, without importing it."""
        for name in self.requires:
            if importlib.util.find_spec(name) is None:
                return Missing(f"{name} is not installed", self.install)
        return None

    def devices(self) -> Sequence[Device]:
        """Devices usable now."""
        raise NotImplementedError(f"backend {self.name!r} must list its devices")

    def versions(self) -> Mapping[str, str]:
        """Versions of `distributions` that are installed."""
        import importlib.metadata  # late: importing portable must be fast

        found = {}
        for name in self.distributions:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return found

    def ops(self) -> Sequence[str]:
        """Public modules beside the package's `__init__`; helpers start with an underscore."""
        import pkgutil

        package = importlib.import_module(self.package)
        names: Iterable[str] = (m.name for m in pkgutil.iter_modules(package.__path__))
        return sorted(name for name in names if not name.startswith("_"))

    def implementation(self, op: str) -> Implementation | None:
        """The module `<package>.<op>`, imported once."""
        if op not in self._implementations:
            found = importlib.util.find_spec(f"{self.package}.{op}") if op in self.ops() else None
            module: Any = importlib.import_module(found.name) if found else None
            self._implementations[op] = module
        return self._implementations[op]

    def array_families(self) -> Sequence[ArrayFamily]:
        """None of its own."""
        return ()

    def synchronize(self, device: Device) -> None:
        """Nothing to wait for: kernels return when they are done."""

    def priors(self) -> Traversable | None:
        """`priors` in the package, when there is such a folder."""
        return self._folder("priors")

    def hardware(self) -> Traversable | None:
        """`hardware` in the package, when there is such a folder."""
        return self._folder("hardware")

    def _folder(self, name: str) -> Traversable | None:
        if not hasattr(sys.modules.get(self.package), "__path__"):
            return None  # one module, no folder
        from importlib.resources import files

        folder = files(self.package) / name
        return folder if folder.is_dir() else None


def trait(implementation: Implementation, name: str, default: Any) -> Any:
    """An optional attribute of an implementation."""
    return getattr(implementation, name, default)
