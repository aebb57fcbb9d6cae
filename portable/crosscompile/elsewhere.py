"""What compilers make of one problem's kernels for hardware that need not be here: for `explain`.

By default only what the cache holds is shown and nothing is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from portable import registry, roofline
from portable.crosscompile.facts import Row, Target
from portable.crosscompile.run import Progress, Report, crosscompile
from portable.crosscompile.show import config_text, matrix_text, occupancy_text, registers
from portable.crosscompile.targets import resolve
from portable.errors import DTypeError
from portable.op import Problem
from portable.roofline import SpeedOfLight
from portable.text import share, table, time_text

HEAD = (
    "backend", "kernel", "config", "registers", "spills", "shared", "matrix instructions",
    "occupancy", "of the roof (est.)", "findings",
)  # fmt: skip
BRIEFLY = (
    "of the roof (est.): tile and wave quantisation, and the peak of the unit used over the best "
    "one's; an upper limit that assumes all else perfect (docs/crosscompile.md)"
)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """One problem on one target. `str()` is a readable table.

    Attributes:
        problem: what would be computed.
        target: where.
        speed_of_light: T_SOL there, or None where the database has no peak for the dtype.
        report: the kernels a call would launch with each backend's first config, as the compilers
            built them (`rows`); what is not built yet (`unbuilt`); who has none, and why
            (`skipped`). Nothing of it was run.
    """

    problem: Problem
    target: Target
    speed_of_light: SpeedOfLight | None
    report: Report

    def __str__(self) -> str:
        return "\n".join([self._limit(), *self._built(), *self._unbuilt(), *self._skipped()])

    def _limit(self) -> str:
        spec, sol = self.target.spec, self.speed_of_light
        if sol is None:
            return f"on {spec.name}: no speed of light (no peak for {self.problem.dtype})"
        estimated = ", estimated peaks" if sol.estimated else ""
        return (
            f"on {spec.name}: speed of light {time_text(sol.time)} ({sol.bound_by} binds, "
            f"intensity {sol.intensity:.3g}, ridge {sol.ridge:.3g} FLOP/B{estimated}); nothing was "
            "measured there"
        )

    def _built(self) -> list[str]:
        if not self.report.rows:
            return []
        compilers = ", ".join(
            f"{name} {version}"
            for versions in self.report.versions.values()
            for name, version in versions.items()
        )
        lines = table(HEAD, [_cells(row) for row in self.report.rows])
        title = f"built for {self.target.architecture}, not run ({compilers}):"
        return [title, *("  " + line for line in lines), BRIEFLY]

    def _unbuilt(self) -> list[str]:
        names = sorted({f"{u.backend} {u.kernel}" for u, _ in self.report.unbuilt})
        if not names:
            return []
        return [
            f"not built for {self.target.architecture} yet: {', '.join(names)}; "
            "`--build` (in Python: build=True) compiles them, seconds each, and keeps the result"
        ]

    def _skipped(self) -> list[str]:
        return [f"not tried: {reason}" for reason in self.report.skipped]


def elsewhere(
    problem: Problem, target: str, *, build: bool = False, progress: Progress | None = None
) -> Elsewhere:
    """The facts of a problem's kernels for a target.

    Args:
        problem: with or without data.
        target: an architecture ("gfx942"), a device of the database ("MI300X"), or "here".
        build: compile what the cache does not have; without it nothing is compiled.
        progress: called after each build.

    Raises:
        UnknownNameError: an unknown target.
    """
    where = resolve(target)
    report = crosscompile(
        problems=[("", problem)], targets=[target], budget=math.inf if build else 0.0,
        progress=progress,
    )  # fmt: skip
    try:
        sol = roofline.speed_of_light(registry.op(problem.op).cost(problem), where.spec)
    except DTypeError:
        sol = None
    return Elsewhere(problem, where, sol, report)


def _cells(row: Row) -> Sequence[str]:
    unit, built = row.unit, row.built
    first = [unit.backend, unit.kernel, config_text(unit.config)]
    if not built.ok:
        return [*first, *["-"] * 6, f"{built.status}: {built.message}"]
    found = [finding.text for finding in row.findings] or ["-"]
    return [
        *first, registers(row), built.spill_text, f"{built.shared / 1024:.3g} KiB",
        matrix_text(row), occupancy_text(row) or "-",
        "-" if row.roof_share is None else f"at most {share(row.roof_share)}", "; ".join(found),
    ]  # fmt: skip
