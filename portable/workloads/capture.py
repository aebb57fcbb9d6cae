"""Capture what an unmodified PyTorch model computes, as a workload.

    with capture() as seen:
        model(x)
    save(seen.workload("my model"), "my_model.jsonl")

Every aten call below the model is seen (also those of backward passes), mapped onto our ops by its
shapes, dtypes and strides, counted and timed; what has no op of ours is listed with its share. A
`silu` whose result is multiplied becomes one `swiglu`. Calls that only make or view tensors are no
work and are left out. The results of the model are not touched.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from portable.errors import ArgumentError, BackendMissingError
from portable.op import Problem, TensorSpec
from portable.workloads import torch_calls
from portable.workloads.selection import bind
from portable.workloads.workload import Entry, Unmapped, Workload

_clock = time.perf_counter


@dataclass(slots=True)
class _Tally:
    """Calls of one kind."""

    entry: Entry | None
    what: str
    calls: int = 0
    seconds: float = 0.0
    flops: float = 0.0


@dataclass(slots=True)
class Captured:
    """What was seen.

    Attributes:
        flops: matrix FLOPs of all calls, as PyTorch counts them.
        mapped_flops: those of calls that have an op of ours.
        seconds: time in all calls that do work [s].
        paused: calls are not noted while this is above 0 (inside of our own ops).
    """

    flops: float = 0.0
    mapped_flops: float = 0.0
    seconds: float = 0.0
    paused: int = 0
    _tallies: dict[Any, _Tally] = field(default_factory=dict)

    @property
    def coverage(self) -> float:
        """Share of the matrix FLOPs that are in calls with an op of ours; 1 without any."""
        return self.mapped_flops / self.flops if self.flops else 1.0

    @property
    def calls(self) -> int:
        """Calls that do work."""
        return sum(t.calls for t in self._tallies.values())

    def note(self, key: Any, entry: Entry | None, what: str, seconds: float, flops: float) -> None:
        """Count one call."""
        tally = self._tallies.setdefault(key, _Tally(entry, what))
        tally.calls += 1
        tally.seconds += seconds
        tally.flops += flops
        self.seconds += seconds
        self.flops += flops
        self.mapped_flops += flops if entry is not None else 0.0

    def take_back(self, key: Any, seconds: float) -> None:
        """Uncount one call that turned out to be part of another one."""
        tally = self._tallies[key]
        tally.calls -= 1
        tally.seconds -= seconds
        self.seconds -= seconds
        if not tally.calls:
            del self._tallies[key]

    def add_problems(self, problems: Sequence[tuple[Problem, int, float]]) -> None:
        """Add calls of our own ops: (problem, calls, seconds)."""
        for problem, calls, seconds in problems:
            operands = dict(zip(problem.operands, problem.tensors, strict=True))
            entry = Entry(problem.op, operands, dict(problem.params), 0.0, 0.0, "portable")
            tally = self._tallies.setdefault(("portable", problem), _Tally(entry, problem.op))
            tally.calls += calls
            tally.seconds += seconds
            self.seconds += seconds

    def workload(self, name: str, steps: int = 1) -> Workload:
        """The calls as a workload; weights are calls per step, shares are of the time taken."""
        total = self.seconds or 1.0
        entries, unmapped = [], []
        for tally in sorted(self._tallies.values(), key=lambda t: -t.seconds):
            weight, share = tally.calls / steps, tally.seconds / total
            if tally.entry is None:
                unmapped.append(Unmapped(tally.what, weight, share, f"aten.{tally.what}"))
            else:
                e = tally.entry
                entries.append(Entry(e.op, e.operands, e.params, weight, share, e.note, e.approx))
        unit = "calls in the captured run" if steps == 1 else f"calls per step, over {steps} steps"
        return Workload(
            name, "capture", ("captured from a running program",), unit,
            ("shares are of the time that the captured calls took on the machine of the capture",),
            tuple(entries), tuple(unmapped),
        )  # fmt: skip


@contextmanager
def capture() -> Iterator[Captured]:
    """See every aten call of this thread, and of the backward passes it starts, in the block.

    Raises:
        BackendMissingError: torch is not installed.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise BackendMissingError("torch", str(error), "pip install torch") from None
    seen = Captured()
    with _mode(seen):
        yield seen


def _mode(seen: Captured) -> Any:
    """A dispatch mode that notes every call. A class inside, because torch is imported late."""
    import torch
    from torch.utils import flop_counter
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            # Results of silu by id, with the call's time; kept alive, so that no other tensor
            # can get the same id.
            self.silu: dict[int, tuple[Any, float]] = {}

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if seen.paused:
                return func(*args, **kwargs)
            start = _clock()
            out = func(*args, **kwargs)
            _wait(torch, out)
            seconds = _clock() - start
            name = func._schema.name.rpartition("::")[2]
            if name in torch_calls.FREE or _is_view(func):
                return out
            flops = _flops(flop_counter, func, name, args, kwargs, out)
            entry, earlier = self.gated(name, args)
            entry = entry or _entry(name, args, kwargs)
            if name == "silu":
                self.remember(out, seconds)
            seen.note(_key(name, entry), entry, name, seconds + earlier, flops)
            return out

        def remember(self, out: Any, seconds: float) -> None:
            if len(self.silu) > 64:
                self.silu.clear()
            self.silu[id(out)] = (out, seconds)

        def gated(self, name: str, args: Sequence[Any]) -> tuple[Entry | None, float]:
            """silu(gate) * up, noted at the multiplication, and the time of the silu."""
            if name != "mul" or len(args) != 2:
                return None, 0.0
            for one, other in (args, args[::-1]):
                if id(one) in self.silu and getattr(other, "shape", None) == one.shape:
                    _, seconds = self.silu.pop(id(one))
                    spec = torch_calls.spec_of(one)
                    operands = {"gate": spec, "up": torch_calls.spec_of(other)}
                    found = _bound("swiglu", operands, {}, "aten.silu, aten.mul", "")
                    if found is not None:
                        seen.take_back("silu", seconds)
                        return found, seconds
            return None, 0.0

    return Mode()


def _flops(counter: Any, func: Any, name: str, args: Sequence[Any], kwargs: Any, out: Any) -> float:
    """Matrix FLOPs by PyTorch's own counters; it has none for attention on the CPU by name."""
    if name == "_scaled_dot_product_flash_attention_for_cpu":
        return float(counter.sdpa_flop_count(*(t.shape for t in args[:3])))
    if name == "_scaled_dot_product_flash_attention_for_cpu_backward":
        return float(counter.sdpa_backward_flop_count(*(t.shape for t in args[:4])))
    count = counter.flop_registry.get(func.overloadpacket)
    return float(count(*args, **kwargs, out_val=out)) if count else 0.0


def _wait(torch: Any, out: Any) -> None:
    """On an accelerator a call returns at once: wait, so that its time is its own."""
    first = out[0] if isinstance(out, tuple | list) and out else out
    device = getattr(first, "device", None)
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)


def _is_view(func: Any) -> bool:
    aliases = [result.alias_info for result in func._schema.returns]
    return bool(aliases) and all(a is not None and not a.is_write for a in aliases)


def _entry(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Entry | None:
    mapped = torch_calls.map_call(name, args, kwargs)
    if mapped is None:
        return None
    op, operands, params, approx = mapped
    return _bound(op, operands, params, f"aten.{name}", approx)


def _bound(
    op: str, operands: dict[str, TensorSpec], params: dict[str, Any], note: str, approx: str
) -> Entry | None:
    """The entry, if the op takes it."""
    entry = Entry(op, operands, params, 0.0, 0.0, note, approx)
    try:
        bind(entry)
    except ArgumentError:
        return None
    return entry


def _key(name: str, entry: Entry | None) -> Any:
    if entry is None:
        return name
    return (entry.op, tuple(entry.operands.items()), repr(sorted(entry.params.items())), name)
