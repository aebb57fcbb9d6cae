"""Why a call runs where it runs: candidates, refusals, evidence, expected times, speed of light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portable import engine, machine, registry, selector
from portable.op import Cost, Problem
from portable.selector import Candidate
from portable.settings import current
from portable.text import share, table, time_text

if TYPE_CHECKING:
    from portable.arrays import Inputs
    from portable.crosscompile import Elsewhere
    from portable.device import DeviceSpec
    from portable.roofline import SpeedOfLight


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the selector knows of one call. `str()` is a readable table.

    Attributes:
        problem: the op with its shapes, dtypes and parameters.
        family: array library of the call; results are of it.
        device: where the data lives.
        spec: the device's entry in the hardware database, or None when it has none.
        cost: compulsory work.
        speed_of_light: T_SOL from the datasheet roof, or None without an entry.
        roof_time: least time [s] by the measured roofs, or None before `portable calibrate`.
        candidates: eligible ones, best first.
        refused: the others, each with its reasons.
        basis: the rung of the ladder of evidence that decided.
        elsewhere: for each target asked about, its speed of light and what compilers make of the
            kernels that cannot run here.
    """

    problem: Problem
    family: str
    device: str
    spec: DeviceSpec | None
    cost: Cost
    speed_of_light: SpeedOfLight | None
    roof_time: float | None
    candidates: tuple[Candidate, ...]
    refused: tuple[Candidate, ...]
    basis: str
    elsewhere: tuple[Elsewhere, ...] = ()

    @property
    def choice(self) -> Candidate | None:
        """The candidate that would run; None when nobody can."""
        return self.candidates[0] if self.candidates else None

    def __str__(self) -> str:
        lines = [str(self.problem), f"  data: {self.family} arrays on {self._device_name()}"]
        lines += ["  " + line for line in self._limits()]
        lines += ["", *self._candidates(), "", *self._refusals()]
        for target in self.elsewhere:
            lines += ["", str(target)]
        return "\n".join(lines).rstrip()

    def _device_name(self) -> str:
        if self.spec is None:
            return f"{self.device} (not in the hardware database: no speed of light)"
        return f"{self.device} ({self.spec.name})"

    def _limits(self) -> list[str]:
        cost, sol = self.cost, self.speed_of_light
        lines = [
            f"work: {cost.flops:.4g} FLOP, {cost.bytes:.4g} B, "
            f"intensity {cost.intensity:.3g} FLOP/B"
        ]
        if sol is not None:
            estimated = ", estimated peaks" if sol.estimated else ""
            lines.append(
                f"speed of light: {time_text(sol.time)} ({sol.bound_by} binds, "
                f"ridge {sol.ridge:.3g} FLOP/B{estimated})"
            )
        if self.roof_time is not None:
            lines.append(f"measured roof: {time_text(self.roof_time)}")
        else:
            lines.append("measured roof: unknown (run `portable calibrate`)")
        return lines

    def _candidates(self) -> list[str]:
        if not self.candidates:
            return ["nobody can run it"]
        rows = []
        for index, candidate in enumerate(self.candidates):
            expected, route = candidate.estimate, candidate.route
            assert expected is not None and route is not None
            rows.append(
                [
                    "->" if index == 0 else "",
                    candidate.name,
                    time_text(expected.time),
                    f"±{min(expected.error, 9.99):.0%}",
                    self._sol_share(expected.time),
                    expected.basis,
                    _copies(route.copies),
                    _config(candidate),
                    expected.evidence,
                ]
            )
        head = ["", "candidate", "expected", "error", "of SOL", "basis", "copies", "config", "from"]
        return [f"chosen by: {self.basis}", *table(head, rows)]

    def _sol_share(self, time: float) -> str:
        return share(self.speed_of_light.time / time) if self.speed_of_light else "-"

    def _refusals(self) -> list[str]:
        rows = [[c.name, "; ".join(c.refused)] for c in self.refused]
        return table(["refused", "reason"], rows) if rows else []


def _copies(copies: tuple[tuple[str, str], ...]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in copies) if copies else "none"


def _config(candidate: Candidate) -> str:
    return " ".join(f"{k}={v}" for k, v in candidate.config.items()) or "-"


def explain(name: str, *args: Any, **kwargs: Any) -> Explanation:
    """What would run `portable.<name>(*args, **kwargs)`, and why. Nothing is run or measured.

    Raises the same errors as the call itself where the caller is mistaken.
    """
    op, arrays, params = engine.captured(name, *args, **kwargs)
    settings = current.get()
    inputs, problem = engine.bind_problem(op, arrays, params, settings)
    return explain_problem(problem, inputs)


def explain_problem(problem: Problem, inputs: Inputs) -> Explanation:
    """The same for a problem without data."""
    op = registry.op(problem.op)
    settings = current.get()
    if settings.backend is not None:
        registry.backend(settings.backend.partition("[")[0])
    eligible, refused = selector.candidates(op, problem, inputs, settings)
    physical = machine.device(inputs.device)
    cost = op.cost(problem)
    return Explanation(
        problem,
        inputs.family.name,
        inputs.device,
        physical.spec,
        cost,
        physical.speed_of_light(cost),
        physical.roof_time(cost),
        tuple(eligible),
        tuple(refused),
        selector.basis_of(eligible, settings),
    )


def of_problem(problem: Problem, device: str) -> Explanation:
    """What would run a problem posed with the arrays a user would have on a device."""
    return explain_problem(problem, imagined_inputs(problem, device))


def imagined_inputs(problem: Problem, device: str) -> Inputs:
    """Inputs as NumPy arrays on the CPU, torch or CuPy arrays on a GPU would be; no data."""
    from portable.arrays import Inputs, host_of

    names = registry.op(problem.op).operand_names
    return Inputs(
        host_of(device),
        device,
        tuple(problem.get(name) for name in names),
        frozenset(),
        tuple(None for _ in problem.operands),
    )
