"""The "cuda" backend on an emulation of the device, as a backend that conformance can run.

The same plans and sources as on a GPU, built with g++ (see tests/cuda/emulation.py). Blocks run one
after the other and calls wait for each other, so that streams, races between blocks and concurrent
calls are not shown by it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portable import cases, registry
from portable.backend import BackendBase, Config, Kernel
from portable.backends.cuda._plan import guarded
from portable.backends.cuda._runtime import Collector
from portable.device import Device
from portable.op import Problem
from tests.cuda import plans
from tests.cuda.emulation import EmulatedRuntime

ARCH = "sm_80"


class Emulated(BackendBase):
    """Ours for CUDA, on NumPy arrays."""

    name, path, families = "cuda", "vendor language", ("numpy",)
    distributions = ("cupy-cuda13x",)

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._runtime = EmulatedRuntime(plans.small(ARCH), folder)
        info = plans.device(ARCH).info
        self._device = Device("cpu", info, "emulation")

    def devices(self) -> Sequence[Device]:
        """One small device of this architecture."""
        return (self._device,)

    def ops(self) -> Sequence[str]:
        """All that the backend has."""
        return plans.OPS

    def implementation(self, op: str) -> Any:
        """The op's module, compiled for the emulation."""
        return OnEmulation(plans.module_of(op), self._runtime) if op in plans.OPS else None


_one = threading.Lock()
"""Shared memory of a block is a static variable of the emulation."""


@dataclass(frozen=True)
class OnEmulation:
    """An implementation module with another `compile`."""

    module: Any
    runtime: EmulatedRuntime

    def why_not(self, problem: Problem, device: Device) -> list[str]:
        """The module's."""
        found: list[str] = self.module.why_not(problem, device)
        return found

    def configs(self, problem: Problem, device: Device) -> Sequence[Config]:
        """The module's."""
        found: Sequence[Config] = self.module.configs(problem, device)
        return found

    def compile(self, problem: Problem, device: Device, config: Config) -> Kernel:
        """Calls run one at a time."""
        kernel = guarded(self.module.build, problem, config, self.runtime)

        def locked(*arrays: Any) -> Any:
            with _one:
                return kernel(*arrays)

        return locked


def prebuild(backend: Any, op_name: str, dtype: str, levels: Sequence[str]) -> None:
    """Builds the kernels of an op's cases with few calls of the compiler."""
    op, (device,) = registry.op(op_name), backend.devices()
    found = backend.implementation(op_name)
    notes = Collector(found.runtime.target)
    for case in op.cases():
        if case.level in levels and dtype in cases.dtypes_of(op, case):
            problem = cases.problem_of(op, cases.arrays(op, case, dtype), case)
            if not found.why_not(problem, device):
                for aligned in (True, False):
                    found.module.build(problem, found.configs(problem, device)[0], notes, aligned)
    found.runtime.prebuild(notes.variants)
