"""Arrays of any library: which family one belongs to, and how it reaches another family.

On the CPU every family meets in host memory (`to_host`, `from_host`: no copy where layout and
alignment allow); on an accelerator two families meet by DLPack.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from portable import registry
from portable.backend import ArrayFamily
from portable.errors import DeviceMismatchError, DTypeError, FamilyError, UnsupportedError
from portable.op import TensorSpec

Step = Callable[[Any], Any]
"""Takes one array to the next place; None in its stead means "as it is"."""


class ForeignFamily:
    """Anything else with DLPack or `__array__`: read through NumPy, results are NumPy arrays."""

    name = "foreign"
    types: tuple[str, ...] = ()

    def _numpy(self, array: Any) -> Any:
        import numpy as np

        if hasattr(array, "__dlpack__"):
            try:
                return np.from_dlpack(array)
            except (BufferError, TypeError, RuntimeError, ValueError):
                if not hasattr(array, "__array__"):
                    raise FamilyError(
                        f"{type(array).__name__} does not hand its data to the host by DLPack; "
                        "copy it to the host first"
                    ) from None
        return np.asarray(array)

    def key(self, array: Any) -> Hashable:
        """Shape, strides and dtype of the NumPy view."""
        view = self._numpy(array)
        return ("foreign", view.shape, view.strides, view.dtype)

    def spec(self, array: Any) -> TensorSpec:
        """As NumPy's family sees the view."""
        return host_family().spec(self._numpy(array))

    def device(self, array: Any) -> str:
        """Host memory."""
        return "cpu"

    def constraints(self, array: Any) -> frozenset[str]:
        """None."""
        return frozenset()

    def normalize(self, array: Any) -> Step | None:
        """As NumPy's family does with the view."""
        return host_family().normalize(self._numpy(array))

    def why_copy(self, spec: TensorSpec) -> str | None:
        """Results are NumPy arrays: never."""
        return None

    def to_host(self, array: Any) -> Any:
        """The NumPy view."""
        return self._numpy(array)

    def from_host(self, array: Any, device: str) -> Any:
        """NumPy arrays stay NumPy arrays."""
        return array

    def from_dlpack(self, array: Any) -> Any:
        """To the host."""
        return self._numpy(array)


FOREIGN = ForeignFamily()


def host_family() -> ArrayFamily:
    """The family of host memory: NumPy's."""
    return registry.families()["numpy"]


def host_of(device: str) -> ArrayFamily:
    """The family a user would hold data in on a device: NumPy on the CPU, torch, CuPy ... else.

    Raises:
        UnsupportedError: no usable backend brings arrays for it.
    """
    if device == "cpu":
        return registry.families()["numpy"]
    known = registry.families_on(device)
    for name in ("torch", "cupy", "jax", "opencl", *known):
        if name in known:
            return known[name]
    raise UnsupportedError(
        f"no array library here can hold data on {device}; `portable doctor` tells why"
    )


def family_of(array: Any) -> ArrayFamily:
    """The family of one array.

    Raises:
        FamilyError: the value is no array; says what to do.
    """
    kind = type(array)
    family = registry.family_of_type(kind)
    if family is not None:
        return family
    module = kind.__module__.partition(".")[0]
    if module != "builtins" and (hasattr(array, "__dlpack__") or hasattr(array, "__array__")):
        return FOREIGN
    fix = "numpy.asarray(...)" if kind.__module__ == "builtins" else "an array with DLPack"
    raise FamilyError(
        f"expected an array, got {kind.__module__}.{kind.__qualname__}; takes arrays of "
        f"{', '.join(sorted(registry.families()))} and whatever has __dlpack__ or __array__. "
        f"Convert it first, for example with {fix}."
    )


class KeyTable(dict[type, Callable[[Any], Hashable]]):
    """type -> the cheap key function of its family; filled on first sight of a type."""

    def __missing__(self, kind: type) -> Callable[[Any], Hashable]:
        if kind is type(None):
            found: Callable[[Any], Hashable] = _key_of_nothing
        else:
            family = registry.family_of_type(kind)
            if family is None:
                return _key_of_unknown
            special = getattr(family, "key_of", None)
            found = (special(kind) if special else None) or family.key
        self[kind] = found
        return found


def _key_of_nothing(_: None) -> None:
    return None


def _key_of_unknown(value: Any) -> Hashable:
    return family_of(value).key(value)


KEYS = KeyTable()


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the arrays of one call are.

    Attributes:
        family: their family; results are of it.
        device: where they live.
        specs: per operand in the op's order; None for an absent one.
        constraints: what the call must keep ("differentiable", "traceable").
        fixes: per present operand, a step it needs before any kernel, or None.
    """

    family: ArrayFamily
    device: str
    specs: tuple[TensorSpec | None, ...]
    constraints: frozenset[str]
    fixes: tuple[Step | None, ...]


def look_at(arrays: tuple[Any, ...], names: tuple[str, ...]) -> Inputs:
    """Family, device and specs of a call's arrays.

    Raises:
        FamilyError, DTypeError: a value that is no array, or arrays of two families.
        DeviceMismatchError: arrays on two devices.
    """
    present = [(n, x) for n, x in zip(names, arrays, strict=True) if x is not None]
    families = [(n, family_of(x)) for n, x in present]
    owners = [(n, f) for n, f in families if f is not FOREIGN] or families
    family = owners[0][1]
    for name, other in owners[1:]:
        if other is not family:
            raise FamilyError(
                f"{owners[0][0]} is a {family.name} array and {name} is a {other.name} array; "
                f"all arrays of a call must be of one family. Convert {name} first, for example "
                f"with {_convert_hint(family.name, name)}."
            )
    by_name = dict(families)
    devices = [(n, by_name[n].device(x)) for n, x in present]
    for name, device in devices[1:]:
        if device != devices[0][1]:
            raise DeviceMismatchError(
                f"{devices[0][0]} is on {devices[0][1]} and {name} is on {device}; move one of "
                f"them, for example {_move_hint(family.name, name, devices[0][1])}."
            )
    specs = tuple(_spec(by_name[n], x, n) if x is not None else None
                  for n, x in zip(names, arrays, strict=True))  # fmt: skip
    constraints = frozenset().union(*(by_name[n].constraints(x) for n, x in present))
    fixes = tuple(_entry_step(by_name[n], family, x) for n, x in present)
    return Inputs(family, devices[0][1], specs, constraints, fixes)


def _spec(family: ArrayFamily, array: Any, name: str) -> TensorSpec:
    try:
        spec = family.spec(array)
        return spec.dense() if spec.contiguous else spec
    except (FamilyError, DTypeError) as error:
        raise type(error)(f"{name}: {error}") from None


def _entry_step(own: ArrayFamily, common: ArrayFamily, array: Any) -> Step | None:
    fix = own.normalize(array)
    if own is not FOREIGN:
        return fix

    def enter(foreign: Any) -> Any:
        host = FOREIGN.to_host(foreign)
        host = fix(host) if fix else host
        return host if common is FOREIGN else common.from_host(host, "cpu")

    return enter


def _convert_hint(family: str, name: str) -> str:
    return {
        "numpy": f"numpy.asarray({name})",
        "torch": f"torch.as_tensor({name})",
        "jax": f"jax.numpy.asarray({name})",
        "cupy": f"cupy.asarray({name})",
        "opencl": f"pyopencl.array.to_device(queue, {name})",
    }.get(family, f"{family}'s from_dlpack({name})")


def _move_hint(family: str, name: str, device: str) -> str:
    if family == "torch":
        return f"{name}.to({device!r})"
    if family == "jax":
        return f"jax.device_put({name}, device)"
    return f"copy {name} to {device}"


@dataclass(frozen=True, slots=True)
class Move:
    """Operands that go to another device by way of the host, and results that come back.

    Attributes:
        source: device of the caller's arrays.
        target: device of the kernel.
        taken: bytes of each operand.
        given: bytes of each result.
    """

    source: str
    target: str
    taken: tuple[int, ...]
    given: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """How arrays of the caller's family reach a backend's kernel, and the result comes back.

    Attributes:
        native: family the kernel takes.
        take: the step for each input, or None when the kernel takes them as they are.
        give: the step for each result, or None.
        copies: what has to be copied, by operand or result name, with the reason.
        copied_bytes: bytes of those copies, each counted once.
        move: what goes to another device and back; None where all stays on one.
    """

    native: str
    take: Step | None = None
    give: Step | None = None
    copies: tuple[tuple[str, str], ...] = ()
    copied_bytes: int = 0
    move: Move | None = None


def route(
    inputs: Inputs, families: tuple[str, ...], device: str, results: tuple[TensorSpec, ...]
) -> Route:
    """The cheapest way from the caller's arrays to one of a backend's families and back."""
    known = registry.families()
    source = inputs.family
    if source.name in families and device == inputs.device:
        return Route(source.name)
    target_name = families[0]
    if source is FOREIGN and target_name == "numpy":
        return Route("numpy")
    target = known[target_name]
    copies, size = _copies(inputs, source, target, results)
    if device == inputs.device and device != "cpu":
        return Route(target_name, target.from_dlpack, source.from_dlpack)
    back, move = inputs.device, None
    if device != inputs.device:
        copies = tuple((n, f"moved from {back} to {device} and back") for n, _ in copies) or (
            ("all", f"moved from {back} to {device} and back"),
        )
        taken = tuple(s.nbytes for s in inputs.specs if s is not None)
        move = Move(back, device, taken, tuple(s.nbytes for s in results))
        size = sum(move.taken) + sum(move.given)

    def take(array: Any) -> Any:
        host = source.to_host(array)
        return target.from_host(host if move is None else _row_major(host), device)

    def give(array: Any) -> Any:
        return source.from_host(target.to_host(array), back)

    return Route(target_name, take, give, copies, size, move)


def _row_major(host: Any) -> Any:
    """What moves is packed first: libraries differ in whether strides survive the way."""
    import numpy as np

    return np.ascontiguousarray(host).reshape(host.shape)  # 0-d stays 0-d


def _copies(
    inputs: Inputs, source: ArrayFamily, target: ArrayFamily, results: tuple[TensorSpec, ...]
) -> tuple[tuple[tuple[str, str], ...], int]:
    copies: list[tuple[str, str]] = []
    size = 0
    for index, spec in enumerate(s for s in inputs.specs if s is not None):
        if why := target.why_copy(spec):
            copies.append((f"input {index}", why))
            size += spec.nbytes
    for index, spec in enumerate(results):
        if why := source.why_copy(spec):
            copies.append((f"result {index}", why))
            size += spec.nbytes
    return tuple(copies), size
