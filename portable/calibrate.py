"""Roofs of this machine, the price of array conversions, and a small probe set: in a minute.

`portable.rooftop` measures the roofs in rounds that are spread out in time; between them matrix
products, conversions and the first gates take their turn. The probe set gets the rest of the time:
compilers work while nothing is timed (`portable.prepare`), and what is left over is left out.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from portable import cases, contest, engine, machine, measure, records, registry, rooftop
from portable.op import Problem, TensorSpec
from portable.prepare import prepare
from portable.roofline import Roofs
from portable.text import table, time_text

Progress = Callable[[int, int, str], None]

SECONDS = 50.0
"""Time for everything."""
CHUNKS = (2, 4, 8)
"""Probes whose gates are passed together, before they are timed: the first ones, and all later."""
PROBE_SECONDS = 0.2
"""Time box of one probe at least."""
LOWER = 0.1
"""A roof that was higher than this share above the new one is told."""
SLOWEST = 12.0
"""Candidates expected to be this many times slower than the best one are not probed."""


@dataclass(slots=True)
class Calibration:
    """What `portable calibrate` found.

    Attributes:
        device: id of the device.
        roofs: the measured roofs.
        contradictions: measured roofs above the datasheet's, in words.
        disturbed: roofs that no second round confirmed, and "machine" where others were at work.
        lower: roofs clearly below those of the calibration before, in words.
        failed: what could not be measured, with the reason.
        conversions: fixed price [s] of taking one small array from a family to another.
        probes: number of probe records kept; problems: probes timed; of: probes in the set.
        seconds: how long it took; budget: how long it was allowed to take.
    """

    device: str
    roofs: Roofs
    contradictions: list[str] = field(default_factory=list)
    disturbed: dict[str, str] = field(default_factory=dict)
    lower: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    conversions: dict[str, float] = field(default_factory=dict)
    probes: int = 0
    problems: int = 0
    of: int = 0
    seconds: float = 0.0
    budget: float = SECONDS

    def __str__(self) -> str:
        found = self.roofs
        rows = [
            [name, f"{value / 1e9:.4g} {unit}", f"{found.spread.get(name, 0.0):.1%}",
             found.method.get(name, "") + (" (disturbed)" if name in self.disturbed else "")]
            for unit, rates in (("GFLOP/s", found.compute), ("GB/s", _bandwidths(found)))
            for name, value in rates.items()
        ]  # fmt: skip
        times = {"launch latency": ("latency", found.latency)}
        times |= {f"{way} latency": (f"{way} latency", t.latency)
                  for way, t in found.transfers.items()}  # fmt: skip
        for title, (name, value) in times.items():
            spread = f"{found.spread.get(name, 0.0):.1%}"
            rows.append([title, time_text(value), spread, found.method.get(name, "")])
        lines = table(["roof", "measured", "spread", "reached by"], rows)
        lines += [f"contradiction: {text}" for text in self.contradictions]
        lines += [f"disturbed: {name}: {text}" for name, text in self.disturbed.items()]
        lines += [f"lower than before: {text}" for text in self.lower]
        lines += [f"not measured: {name}: {text}" for name, text in self.failed.items()]
        if self.disturbed or self.lower:
            lines.append("run `portable calibrate` again when the machine is idle")
        lines.append(
            f"{self.device}: {self.probes} probe records of {self.problems} of {self.of} problems, "
            f"{len(self.conversions)} conversion prices, {self.seconds:.0f} s of "
            f"{self.budget:.0f} s; kept for later choices"
        )
        return "\n".join(lines)


def calibrate(
    device: str = "cpu",
    *,
    probes: bool = True,
    budget: float = SECONDS,
    progress: Progress | None = None,
) -> Calibration:
    """Measure roofs, conversions and the probe set of a device, and remember them.

    Args:
        device: id of the device.
        probes: also time the probe set: exact records and neighbours for later choices.
        budget: [s] for everything. Roofs and conversions are always measured; the probe set gets
            what is left, and disturbed roofs are measured again between the probes.
        progress: called with (steps done, steps in all, what is next).

    Raises:
        UnknownNameError: no such device.
    """
    start = time.monotonic()
    say = progress or (lambda done, total, what: None)
    physical = machine.device(device)
    survey, earlier = rooftop.Survey(physical), physical.roofs
    _measure(survey, start + budget / 2, say)
    key = machine.fingerprint(device)
    say(3, 4, "conversions")
    conversions = _conversions() if device == "cpu" else {}
    survey.round()
    done = Calibration(device, _remember(survey, key), conversions=conversions, budget=budget)
    if conversions:
        records.default_store().put_fact("conversions", key, conversions)
    engine.refresh()
    if probes:
        _probe(done, survey, start + budget - survey.seconds, say)
    for _ in range(rooftop.ROUNDS):
        if _left(start + budget) < survey.seconds or not survey.again():
            break
    done.roofs, done.disturbed = _remember(survey, key), survey.disturbed()
    done.lower, done.failed = _lower(done.roofs, earlier), survey.failed
    done.contradictions = _contradictions(physical, done.roofs)
    engine.refresh()
    done.seconds = time.monotonic() - start
    return done


def _measure(survey: rooftop.Survey, deadline: float, say: Progress) -> None:
    """All roofs: rounds of the micro-kernels with matrix products and launches between them."""
    device = survey.physical.id
    say(0, 4, "compute and bandwidth")
    survey.round()
    say(1, 4, "matrix products")
    prepare(rooftop.products(), device=device, slowest=SLOWEST, deadline=deadline)
    survey.products()
    survey.launches()
    if "dram" not in survey.bandwidth:
        survey.large()
    say(2, 4, "compute and bandwidth again")
    for _ in range(rooftop.ROUNDS - 2):
        survey.round()


def _remember(survey: rooftop.Survey, key: str) -> Roofs:
    roofs = survey.roofs()
    records.default_store().put_fact("roofs", key, roofs.to_json())
    machine.measured_roofs.cache_clear()
    return roofs


def _lower(roofs: Roofs, earlier: Roofs | None) -> list[str]:
    """What was clearly higher the last time: a machine under load, or one that has changed."""
    if earlier is None:
        return []
    return [
        f"{name}: {now / 1e9:.4g} G{unit}, {before / 1e9:.4g} on {earlier.created[:16]}"
        for unit, new, old in (
            ("FLOP/s", roofs.compute, earlier.compute),
            ("B/s", _bandwidths(roofs), _bandwidths(earlier)),
        )
        for name, now in new.items()
        if (before := old.get(name, 0.0)) > (1 + LOWER) * now
    ]


def _bandwidths(roofs: Roofs) -> dict[str, float]:
    """Rates [B/s] of memory levels and of transfers."""
    return {**roofs.bandwidth, **{way: t.bandwidth for way, t in roofs.transfers.items()}}


def _left(deadline: float) -> float:
    return deadline - time.monotonic()


def _contradictions(physical: machine.PhysicalDevice, roofs: Roofs) -> list[str]:
    """Measured roofs above the datasheet's: one of the two is wrong, and both are shown."""
    spec = physical.spec
    if spec is None:
        return [f"{physical.info.name} is not in the hardware database: nothing to compare with"]
    found = []
    for name, rate in roofs.compute.items():
        dtype, unit = name.split("/")
        peak = spec.peak(dtype, unit)
        if rate > peak:
            found.append(f"{name}: measured {rate:.4g} FLOP/s, {spec.name} has {peak:.4g}")
    if roofs.dram > spec.bandwidth:
        found.append(f"dram: measured {roofs.dram:.4g} B/s, {spec.name} has {spec.bandwidth:.4g}")
    return found


# --- conversions -------------------------------------------------------------------------------


def _conversions() -> dict[str, float]:
    """Fixed price [s] of one small host array from each family to each other one."""
    import numpy as np

    known = registry.families()
    small = np.ones(16, dtype=np.float32)
    held = {}
    for name, family in known.items():
        try:
            held[name] = family.from_host(small, "cpu")
        except Exception:  # a family without host arrays has no price on the CPU
            continue
    steps = {
        f"{a}>{b}": (lambda a=a, b=b: known[b].from_host(known[a].to_host(held[a]), "cpu"))
        for a in held
        for b in held
        if a != b
    }
    timed = measure.measure(steps, budget=1.5, max_samples=25)
    return {name: s.time for name, s in timed.items() if math.isfinite(s.time)}


# --- probes ------------------------------------------------------------------------------------


def probe_problems() -> list[Problem]:
    """A small set over ops, dtypes and shape classes: neighbours for most of what comes later."""
    from portable.probes import PROBES

    found = []
    for op_name, shapes, dtype, params, transposed in PROBES:
        op = registry.op(op_name)
        problem = cases.problem_of_shapes(op, shapes, dtype, params)
        found.append(with_transposed(problem, transposed) if transposed else problem)
    return found


def with_transposed(problem: Problem, operand: str) -> Problem:
    """The same problem with one operand stored transposed (a weight kept as (n, k))."""
    index = problem.operands.index(operand)
    spec = problem.tensors[index]
    flipped = TensorSpec(spec.shape, spec.dtype, (1, spec.shape[0]))
    tensors = (*problem.tensors[:index], flipped, *problem.tensors[index + 1 :])
    return replace(problem, tensors=tensors)


def _probe(done: Calibration, survey: rooftop.Survey, deadline: float, say: Progress) -> None:
    """Time as many probes as fit, a few at a time after their gates; disturbed roofs get another
    round in between, at another moment."""
    problems = probe_problems()
    done.of = len(problems)
    longest = 0.0
    for chunk in _chunks(problems):
        if _left(deadline) > survey.seconds:
            survey.again()
        say(done.problems, len(problems), "compiling")
        prepare(chunk, device=done.device, slowest=SLOWEST, deadline=deadline)
        for problem in chunk:
            if _left(deadline) < longest or _left(deadline) <= 0:
                return
            began = time.monotonic()
            say(done.problems, len(problems), str(problem))
            share = _left(deadline) / (len(problems) - done.problems)
            seconds = max(PROBE_SECONDS, 0.6 * share)
            result = contest.contest(problem, device=done.device, budget=seconds, slowest=SLOWEST)
            records.default_store().add(result.records)
            done.probes += len(result.records)
            done.problems += 1
            longest = max(longest, time.monotonic() - began)


def _chunks(problems: list[Problem]) -> Iterator[list[Problem]]:
    """Few at first, so that a short budget times some before it has compiled for many."""
    sizes = itertools.chain(CHUNKS, itertools.repeat(CHUNKS[-1]))
    left = iter(problems)
    while chunk := list(itertools.islice(left, next(sizes))):
        yield chunk


__all__ = ["Calibration", "calibrate", "probe_problems", "with_transposed"]
