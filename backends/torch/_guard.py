"""Keeps torch's global modes from lowering the precision that a problem promises.

`torch.autocast` would make a float32 product bfloat16, and `allow_tf32`,
`set_float32_matmul_precision` or `fp32_precision` would make it TF32 or bfloat16 inside. A kernel
promises its problem's dtype and precision whatever backend runs it. So the modes are looked at in
every call, and lifted for its duration where they would harm. Lifting only ever raises precision:
what other threads compute in the meantime becomes slower, never less exact.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from portable.backend import Kernel
from portable.backends.torch._arrays import torch_device
from portable.device import Device
from portable.op import Problem

_KINDS = ("cpu", "cuda", "xpu", "mps")
_autocast_on: Callable[[], bool] = getattr(
    torch._C, "_is_any_autocast_enabled", lambda: any(map(torch.is_autocast_enabled, _KINDS))
)
_lock = threading.RLock()


def guarded(kernel: Kernel, problem: Problem, device: Device) -> Kernel:
    """A matrix product (or convolution, attention) that the global modes cannot lower."""
    if problem.dtype not in ("float32", "float16", "bfloat16"):
        return kernel
    kind = torch_device(device.id).type
    lowered = _lowered(kind) if problem.dtype == "float32" and _keeps_full(problem) else None

    def in_peace(*arrays: Any) -> Any:
        with torch.autocast(kind, enabled=False), _full_precision(kind):
            return kernel(*arrays)

    def harmful() -> bool:
        return _autocast_on() or (lowered is not None and lowered())

    harms = _autocast_on if lowered is None else harmful
    guard = _guard_pair if len(problem.tensors) == 2 else _guard_any
    return guard(kernel, in_peace, harms)


def _guard_any(kernel: Kernel, in_peace: Kernel, harms: Callable[[], bool]) -> Kernel:
    def guard(*arrays: Any) -> Any:
        return in_peace(*arrays) if harms() else kernel(*arrays)

    return guard


def _guard_pair(kernel: Kernel, in_peace: Kernel, harms: Callable[[], bool]) -> Kernel:
    """Two names cost a call less than `*arrays` do."""

    def guard(a: Any, b: Any) -> Any:
        return in_peace(a, b) if harms() else kernel(a, b)

    return guard


def full_precision(kernel: Kernel, device: Device) -> Kernel:
    """The kernel with its inner float32 products always in full, whatever its operands' dtype."""
    kind = torch_device(device.id).type
    lowered = _lowered(kind)

    def guard(*arrays: Any) -> Any:
        if not _autocast_on() and (lowered is None or not lowered()):
            return kernel(*arrays)
        with torch.autocast(kind, enabled=False), _full_precision(kind):
            return kernel(*arrays)

    return guard


def _keeps_full(problem: Problem) -> bool:
    return problem.precision == "highest"


def _lowered(kind: str) -> Callable[[], bool] | None:
    """Asks whether float32 products are lowered on this kind of device; None: they never are."""
    if kind == "cpu" and not _cpu_can_lower():
        return None
    getters = [get for get, _ in _switches(kind)]
    return (lambda: any(get() for get in getters)) if getters else None


def _cpu_can_lower() -> bool:
    """oneDNN computes float32 products in bfloat16 on matrix units only (AMX; Arm with bf16)."""
    if torch.backends.cpu.get_cpu_capability().startswith(("AVX", "DEFAULT")):
        asked = getattr(torch.cpu, "_is_amx_tile_supported", None)
        return True if asked is None else bool(asked())
    return True


_Switch = tuple[Callable[[], bool], Callable[[], Callable[[], None]]]
"""Whether a mode lowers float32, and a function that lifts it and returns what restores it."""


def _switches(kind: str) -> list[_Switch]:
    modern = getattr(torch._C, "_get_fp32_precision_getter", None)
    if modern is not None:
        owners = {"cpu": ["mkldnn"], "xpu": ["mkldnn"], "cuda": ["cuda"]}.get(kind, [])
        return [_modern(o, op) for o in owners for op in ("matmul", "conv")]
    if kind == "cuda":
        return [_legacy("cublas"), _legacy("cudnn")]
    return [_legacy_matmul()]


def _modern(owner: str, op: str) -> _Switch:
    get, put = torch._C._get_fp32_precision_getter, torch._C._set_fp32_precision_setter

    def lift() -> Callable[[], None]:
        before = get(owner, op)
        put(owner, op, "ieee")
        return lambda: put(owner, op, before)

    return (lambda: get(owner, op) not in ("none", "ieee")), lift


def _legacy(library: str) -> _Switch:
    get = getattr(torch._C, f"_get_{library}_allow_tf32")
    put = getattr(torch._C, f"_set_{library}_allow_tf32")

    def lift() -> Callable[[], None]:
        put(False)
        return lambda: put(True)

    return get, lift


def _legacy_matmul() -> _Switch:
    def lift() -> Callable[[], None]:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        return lambda: torch.set_float32_matmul_precision(before)

    return (lambda: torch.get_float32_matmul_precision() != "highest"), lift


@contextmanager
def _full_precision(kind: str) -> Iterator[None]:
    with _lock:
        restore = [lift() for lowers, lift in _switches(kind) if lowers()]
        try:
            yield
        finally:
            for undo in reversed(restore):
                undo()
