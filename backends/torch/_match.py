"""One check in C++ for all tensors of a call, in place of a key for each.

Reading shape, strides, dtype and state of two tensors from Python costs about 0.8 µs with the
look-up; `TensorGuards`, with which Dynamo guards its graphs, compares all of it in 0.14 µs, the
dispatch keys of the thread included (torch.func, dispatch modes, autocast, inference mode). It is
no public interface: whether this torch has it, and whether it tells all those apart, is tried once,
and where it does not, there is no matcher and the keys are used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from portable.backends.torch._support import apart_from_modes

Matcher = Callable[..., bool]


def matcher(tensors: Sequence[Any]) -> Matcher | None:
    """Tells whether tensors are like these in all that a key holds; None where it cannot."""
    if not _guards_work() or not all(isinstance(t, torch.Tensor) for t in tensors):
        return None
    if any(t.layout != torch.strided or t.is_nested for t in tensors):
        return None
    check = _check(tensors) if _distinct(tensors) else _check_each(tensors)
    if not check(*tensors) or forward_ad._current_level >= 0:
        return None
    if not any(t.requires_grad for t in tensors):
        return lambda *given: forward_ad._current_level < 0 and check(*given)
    if torch.is_grad_enabled():
        return None
    # A guard does not see whether gradients are off.
    return lambda *given: (
        not torch.is_grad_enabled() and forward_ad._current_level < 0 and check(*given)
    )


def _check(tensors: Sequence[Any]) -> Matcher:
    guards: Any = torch._C._dynamo.guards
    found: Matcher = guards.TensorGuards(
        *tensors,
        dynamic_dims_sizes=[list(t.shape) for t in tensors],
        dynamic_dims_strides=[list(t.stride()) for t in tensors],
    ).check
    return found


def _distinct(tensors: Sequence[Any]) -> bool:
    return len({id(t) for t in tensors}) == len(tensors)


def _check_each(tensors: Sequence[Any]) -> Matcher:
    """A guard says no to a tensor that is given twice: one guard for each."""
    checks = [_check([t]) for t in tensors]
    if len(checks) == 2:
        first, second = checks
        return lambda a, b: first(a) and second(b)
    return lambda *given: all(check(t) for check, t in zip(checks, given, strict=True))


class _Mode(TorchDispatchMode):  # type: ignore[misc]
    """A dispatch mode that does nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@functools.cache
def _guards_work() -> bool:
    """Whether guards tell apart everything a key tells apart, in this torch."""
    try:
        return apart_from_modes(_tells_apart)
    except (AttributeError, TypeError, RuntimeError, SystemError):
        return False


def _tells_apart() -> bool:
    x = torch.zeros(2, 3)
    check, seen = _check([x]), []
    unlike = [x.T, x.double(), torch.zeros(3, 2), torch.zeros(2, 6)[:, ::2],
              torch.zeros(2, 3, device="meta"), torch.zeros(2, 3, requires_grad=True),
              torch.nn.Parameter(x, requires_grad=False)]  # fmt: skip
    seen += [check(t) for t in unlike]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        seen.append(check(x))
    with _Mode():
        seen.append(check(x))
    with torch.inference_mode():
        seen.append(check(torch.zeros(2, 3)))

    def inside(t: Any) -> Any:
        seen.extend((check(x), check(t)))
        return t

    torch.func.vmap(inside)(torch.zeros(2, 2, 3))
    return check(torch.ones(2, 3)) and not any(seen) and len(seen) == len(unlike) + 5
