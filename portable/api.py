"""The public functions beside the ops: settings, and questions about backends and hardware."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from portable.settings import Settings, changed, scope

if TYPE_CHECKING:
    from portable.device import DeviceSpec
    from portable.engine import Bound
    from portable.explaining import Explanation
    from portable.machine import PhysicalDevice
    from portable.profiling import Profile
    from portable.roofline import SpeedOfLight
    from portable.tuning import TuneResult


def using(
    *,
    backend: str | None = None,
    device: str | None = None,
    policy: str | None = None,
    precision: str | None = None,
    deterministic: bool | None = None,
    offload: bool | None = None,
    choices: str | None = None,
) -> AbstractContextManager[Settings]:
    """Wishes for all calls inside a `with` block, in this thread and its tasks.

    Args:
        backend: the only backend that may run: "opencl", or "opencl[intel]" for one runtime.
        device: the only device that may run: "cpu", "cuda:0".
        policy: "auto", "tune" or "adaptive".
        precision: "highest" (default) or "high": tf32 or bf16x3 allowed for float32.
        deterministic: only implementations that give the same bits every time.
        offload: arrays may be moved to another device for a call, and the result back.
        choices: a frozen choice table written by `portable tune --freeze`.

    Raises:
        UnknownNameError: no such backend, device, policy or precision.
        BackendMissingError: the backend cannot be used here; carries the install line.
        PluginError: the backend is a broken plugin; the original error is the cause.
        RecordError: the choice table cannot be read.
    """
    from portable import frozen, machine, registry
    from portable.errors import UnknownNameError

    if backend is not None:
        name, _, runtime = backend.partition("[")
        runtimes = {d.runtime for d in registry.backend(name).devices()}
        if runtime and runtime.removesuffix("]") not in runtimes:
            known = [f"{name}[{r}]" for r in runtimes if r]
            raise UnknownNameError("runtime", backend, known)
    if device is not None:
        machine.device(device)
    if choices is not None:
        frozen.load(choices)
    return scope(
        changed(
            backend=backend, device=device, policy=policy, precision=precision,
            deterministic=deterministic, offload=offload, choices=choices,
        )
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """One backend, usable or not.

    Attributes:
        name: its name.
        available: whether it can run here.
        path: porting path ("dsl", "vendor library" ...); "" when it could not be loaded.
        devices: names of the devices it drives here, with the runtime.
        reason: why it is not available; "" when it is.
        install: the command that brings what is missing; "" when there is none.
        versions: of its libraries and drivers.
        origin: distribution and entry point it comes from.
    """

    name: str
    available: bool
    path: str
    devices: tuple[str, ...]
    reason: str
    install: str
    versions: dict[str, str]
    origin: str


def backends() -> list[BackendStatus]:
    """Every backend found, available or not, with the reason and the line that installs it."""
    from portable import registry

    found = []
    for entry in registry.registered().values():
        backend = entry.backend
        usable = entry.usable and backend is not None
        devices: tuple[str, ...] = ()
        if usable and backend is not None:
            devices = tuple(f"{d.id} ({d.runtime or d.info.name})" for d in backend.devices())
        found.append(
            BackendStatus(
                entry.name,
                usable,
                backend.path if backend else "",
                devices,
                entry.why,
                entry.missing.install if entry.missing else "",
                dict(backend.versions()) if usable and backend else {},
                entry.origin,
            )
        )
    return sorted(found, key=lambda b: (not b.available, b.name))


def devices() -> list[PhysicalDevice]:
    """Every usable device with its hardware entry, its measured roofs and the ways to it."""
    from portable import machine

    return list(machine.devices().values())


def hardware(name: str) -> DeviceSpec:
    """An entry of the hardware database: by key, by name ("H200 SXM"), or "here".

    Raises:
        UnknownNameError: no such entry; the message lists near names and how to add one.
    """
    from portable import machine

    return machine.spec_of(name)


def speed_of_light(
    op: str, *shapes: tuple[int, ...], dtype: str = "float32", hardware: str = "here", **params: Any
) -> SpeedOfLight:
    """T_SOL = max over units(FLOPs / peak, bytes / bandwidth) of a problem on a device.

    Args:
        op: name of an op.
        shapes: of its operands, in call order; optional ones at the end may be left out.
        dtype: of its float operands ("float32", "bf16" ...); of integers where the op takes them.
        hardware: name in the hardware database, or "here".
        params: parameters of the op, such as causal=True.

    Raises:
        ArgumentError: shapes, dtype or parameters that the op does not take.
        UnknownNameError: no such op or hardware.
    """
    from portable import cases, machine, registry, roofline

    found = registry.op(op)
    problem = cases.problem_of_shapes(found, shapes, dtype, params)
    return roofline.speed_of_light(found.cost(problem), machine.spec_of(hardware))


def register(backend: Any) -> None:
    """Add a backend by hand, for this process: for notebooks and tests. Plugins use entry points.

    Raises:
        PluginError: its name is taken, or it was written for another API version.
    """
    from portable import engine, registry

    registry.register(backend)
    engine.refresh()


def unregister(name: str) -> None:
    """Remove a backend from this process, with the plans that use it."""
    from portable import engine, registry

    registry.unregister(name)
    engine.refresh()


def explain(
    name: str,
    *args: Any,
    target: str | Sequence[str] = (),
    build: bool = False,
    **kwargs: Any,
) -> Explanation:
    """What would run `portable.<name>(*args, **kwargs)`, and why. Nothing is run or measured.

    Args:
        name: of an op.
        args, kwargs: as for the call.
        target: hardware that need not be here, an architecture ("gfx942") or a device of the
            database ("H200 SXM"), or several: what compilers make of this call's kernels there
            (registers, spills, matrix instructions, occupancy, an estimated share of the roof).
        build: compile for the targets what was not compiled before; else only what the cache of
            `portable crosscompile` has is shown.

    Returns:
        An Explanation: `str()` is a readable table; `.choice`, `.candidates`, `.refused`,
        `.speed_of_light`, `.elsewhere`.

    Raises:
        UnknownNameError: no such op or target. The same errors as the call where the caller is
            mistaken.
    """
    from portable import explaining

    found = explaining.explain(name, *args, **kwargs)
    targets = (target,) if isinstance(target, str) else tuple(target)
    if not targets:
        return found
    from portable.crosscompile import elsewhere

    return replace(
        found, elsewhere=tuple(elsewhere(found.problem, t, build=build) for t in targets)
    )


def bind(name: str, *args: Any, **kwargs: Any) -> Bound:
    """A callable for calls like this one, chosen and compiled now: the least overhead.

    It takes the call's arrays in the op's operand order, absent ones as None; parameters are
    fixed; arrays of another shape, dtype or layout raise ShapeError.
    """
    from portable import engine

    return engine.bind(name, *args, **kwargs)


def profile() -> AbstractContextManager[Profile]:
    """What an app called inside a `with` block, how long it took, how far from SOL, MFU."""
    from portable import profiling

    return profiling.profile()


def tune(problems: Any, *, budget: float = 60.0, seed: int = 0) -> TuneResult:
    """Measure the candidates of problems, and remember: later calls choose by these records.

    Args:
        problems: a workload's name or file, a profile's `problems()`, or an iterable of Problem
            or (Problem, weight).
        budget: time box [s]; spent where the weighted time is.
        seed: of the order in which things are tried.

    Returns:
        What was measured and what is chosen now.
    """
    from portable import tuning

    return tuning.tune(problems, budget=budget, seed=seed)
