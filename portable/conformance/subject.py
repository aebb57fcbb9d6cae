"""What is checked: one implementation on one device, and how it is run on host arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from portable import arrays as arrays_
from portable import engine, registry
from portable.backend import ArrayFamily, Backend, Config, Implementation, Kernel, trait
from portable.device import Device
from portable.op import Op, Problem
from portable.settings import current, scope

Array = np.ndarray[Any, np.dtype[Any]]


class Failed(Exception):
    """A check that does not hold, with what is wrong."""

    def __init__(self, check: str, *reasons: str) -> None:
        super().__init__(check)
        self.check, self.reasons = check, reasons


@dataclass(frozen=True, slots=True)
class Subject:
    """One op of one backend on one device."""

    backend: Backend
    implementation: Implementation
    device: Device
    op: Op

    @property
    def candidate(self) -> str:
        """Backend and runtime: "opencl[intel]"."""
        runtime = f"[{self.device.runtime}]" if self.device.runtime else ""
        return self.backend.name + runtime

    @property
    def family(self) -> ArrayFamily:
        """Family of its native arrays."""
        return registry.families()[self.backend.families[0]]

    @property
    def deterministic(self) -> bool:
        """Whether it promises the same bits."""
        return bool(trait(self.implementation, "DETERMINISTIC", True))

    def why_not(self, problem: Problem) -> list[str]:
        """Its reasons, checked to be phrases."""
        reasons = self.implementation.why_not(problem, self.device)
        if not isinstance(reasons, list) or not all(isinstance(r, str) and r for r in reasons):
            raise Failed("contract", f"why_not gave {reasons!r}; must be a list of phrases")
        return reasons

    def configs(self, problem: Problem) -> list[Config]:
        """Its configs, checked to be mappings of plain values."""
        found = list(self.implementation.configs(problem, self.device))
        for config in found:
            plain = isinstance(config, dict) and all(
                isinstance(k, str) and isinstance(v, int | float | str | bool)
                for k, v in config.items()
            )
            if not plain:
                raise Failed(
                    "contract", f"config {config!r}; must map names to numbers, strings or bools"
                )
        return found or [{}]

    def compile(self, problem: Problem, config: Config | None = None) -> Kernel:
        """The kernel with a config, the first by default."""
        chosen = self.configs(problem)[0] if config is None else config
        try:
            kernel = self.implementation.compile(problem, self.device, chosen)
        except Exception as error:
            raise Failed("compile", f"{type(error).__name__}: {error}") from error
        if not callable(kernel):
            raise Failed("contract", f"compile gave a {type(kernel).__name__}; must be callable")
        return kernel

    def posed(self, problem: Problem, native: Sequence[Any]) -> Problem:
        """The problem with the strides that native arrays have: a family may copy what it takes."""
        if self.family.name == "numpy":
            return problem
        strides = [self.family.spec(array).strides for array in native]
        pairs = zip(problem.tensors, strides, strict=True)
        return replace(problem, tensors=tuple(replace(t, strides=s) for t, s in pairs))

    def native(self, array: Array) -> Any:
        """A host array as the kernel gets it."""
        if self.family.name == "numpy":
            return array
        return self.family.from_host(array, self.device.id)

    def run(self, kernel: Kernel, host: Sequence[Array]) -> Results:
        """Runs a kernel on host arrays. Raises Failed("exception") and Failed("delegation")."""
        return self.run_native(kernel, [self.native(a) for a in host])

    def run_native(self, kernel: Kernel, native: Sequence[Any]) -> Results:
        """The same on native arrays."""
        with _nobody_else() as others:
            try:
                outcome = kernel(*native)
            except Exception as error:
                raise Failed("exception", f"{type(error).__name__}: {error}") from error
        if others:
            raise Failed("delegation", f"the kernel called portable.{others[0]}")
        results = outcome if isinstance(outcome, tuple) else (outcome,)
        for result in results:
            self._check_type(result)
        views = [self.family.to_host(r) for r in results]
        return Results(results, views, [v.copy() for v in views])

    def _check_type(self, result: Any) -> None:
        kind = type(result)
        exact = self.family.name != "numpy" or kind is np.ndarray
        if not exact or registry.family_of_type(kind) is not self.family:
            raise Failed(
                "contract", f"the result is a {kind.__module__}.{kind.__qualname__}; "
                f"must be an array of family {self.family.name}",
            )  # fmt: skip

    def call(self, host: Sequence[Any], params: dict[str, Any], problem: Problem) -> Dispatched:
        """The public way: portable.<op> on host arrays under using(backend=this)."""
        present = dict(zip(problem.operands, host, strict=True))
        given = tuple(present.get(name) for name in self.op.operand_names)
        values = tuple((dict(self.op.params) | params)[name] for name in self.op.params)
        seen = _Watcher()
        wish = replace(
            current.get(), backend=self.candidate, device=self.device.id, observer=seen, plans={},
            offload=True,
        )  # fmt: skip
        try:
            with scope(wish):
                result = engine.call(self.op, given, values)
        finally:
            engine.forget_plans(self.candidate)
        return Dispatched(result, seen.launches)


@dataclass(frozen=True, slots=True)
class Results:
    """What one call gave.

    Attributes:
        native: the kernel's arrays.
        views: the same as NumPy arrays, without a copy where the family can.
        now: copies, made as soon as the call had returned.
    """

    native: Sequence[Any]
    views: list[Array]
    now: list[Array]

    def changed(self) -> bool:
        """Whether the memory of the results is no longer what it was on return."""
        return not same(self.views, self.now)


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A result of the public function, and who was launched how often for it."""

    result: Any
    launches: list[str]

    def on_host(self) -> tuple[Array, ...]:
        """The results as NumPy arrays."""
        results = self.result if isinstance(self.result, tuple) else (self.result,)
        return tuple(arrays_.family_of(r).to_host(r) for r in results)


class _Watcher:
    """Observer of settings: who is launched."""

    def __init__(self) -> None:
        self.launches: list[str] = []

    def watch(self, plan: engine.Plan) -> Callable[..., Any]:
        def run(*arrays: Any) -> Any:
            self.launches.append(plan.choice.candidate.name)
            return plan.run(*arrays)

        return run


class _Delegated(_Watcher):
    """Notes ops that a kernel calls through `portable`."""

    def watch(self, plan: engine.Plan) -> Callable[..., Any]:
        self.launches.append(plan.choice.problem.op)
        return plan.run


@contextlib.contextmanager
def _nobody_else() -> Iterator[list[str]]:
    """Notes calls of `portable`'s own ops inside."""
    seen = _Delegated()
    with scope(replace(current.get(), observer=seen, plans={})):
        yield seen.launches


def same(one: Sequence[Array], other: Sequence[Array]) -> bool:
    """Whether arrays are equal bit for bit."""
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))
