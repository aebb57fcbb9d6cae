"""The launches of a problem where no device is: kernels with their grids, from the same plan."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

from portable.backend import Config
from portable.backends.cuda._build import KernelVariant, Macros
from portable.backends.cuda._runtime import Collector, Grid, Launch
from portable.backends.cuda._targets import of_device, target
from portable.device import Device, DeviceInfo
from portable.op import Problem


class Tracer(Collector):
    """Notes which kernels a plan builds and how many blocks it launches of each."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.blocks: dict[int, int] = {}

    def kernel(self, file: str, name: str, macros: Macros, block: int, shared: int = 0) -> Launch:
        """Note it; the result notes its grid."""
        super().kernel(file, name, macros, block, shared)
        index = len(self.variants) - 1

        def launch(grid: Grid, *args: Any) -> None:
            self.blocks.setdefault(index, math.prod(grid))

        return launch

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        """Nothing: plans hand arrays on and do not look into them."""
        return None

    def pointer(self, array: Any) -> int:
        """An aligned address that nobody reads."""
        return 0


def device(architecture: str, units: int) -> Device:
    """A device of the architecture with the limits its maker documents."""
    limits = target(architecture)
    extra = {"warp_size": str(limits.warp), "shared_per_block": str(limits.shared)}
    info = DeviceInfo(architecture, architecture=architecture, units=units, extra=extra)
    return Device("cuda:0", info)


def launches(
    op: str, problem: Problem, architecture: str, units: int, config: Config
) -> list[tuple[KernelVariant, int]]:
    """Every kernel a call with aligned arrays launches, in order, with its blocks."""
    module: Any = importlib.import_module(f"{__package__}.{op}")
    tracer = Tracer(of_device(device(architecture, units)), op)
    module.build(problem, config, tracer, True)(*problem.operands)
    return [(tracer.variants[index], blocks) for index, blocks in tracer.blocks.items()]
