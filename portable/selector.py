"""Problem -> Choice: who may run it, who is expected to be fastest, and on what evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from portable import arrays, estimate, evidence, filing, gate, machine, registry, trial
from portable.backend import Config, Implementation, Kernel, trait
from portable.device import Device
from portable.errors import CompileError, PluginError, UnsupportedError, WrongResultError
from portable.op import Op, Problem
from portable.samples import TIE
from portable.settings import Settings


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run a problem.

    Attributes:
        backend: name of the backend.
        device: device and runtime it would run on.
        implementation: the implementation, or None when there is none.
        config: the config with the best expected time.
        route: how the caller's arrays get there and back.
        estimate: expected time, conversions included; None when refused.
        refused: why it cannot run the problem; empty when it can.
        frozen: a frozen choice table names it.
        broken: it, or its backend, cannot be imported.
    """

    backend: str
    device: Device
    implementation: Implementation | None = None
    config: Config = field(default_factory=dict)
    route: arrays.Route | None = None
    estimate: estimate.Estimate | None = None
    refused: tuple[str, ...] = ()
    frozen: bool = False
    broken: bool = False

    @property
    def name(self) -> str:
        """The backend, with the runtime where a device has several: "opencl[intel]"."""
        return f"{self.backend}[{self.device.runtime}]" if self.device.runtime else self.backend

    def posed(self, problem: Problem) -> Problem:
        """The problem as the kernel sees it: what moved to its device arrives row-major."""
        if self.route is None or self.route.move is None:
            return problem
        return replace(problem, tensors=tuple(t.dense() for t in problem.tensors))


@dataclass(frozen=True, slots=True)
class Choice:
    """What runs a problem, on what basis, and why the others do not.

    Attributes:
        problem: the problem.
        candidate: the chosen way.
        kernel: the compiled kernel; takes native arrays.
        basis: the rung of the ladder of evidence, or "override".
        candidates: all eligible ones, best first.
        refused: all others, with their reasons.
    """

    problem: Problem
    candidate: Candidate
    kernel: Kernel
    basis: str
    candidates: tuple[Candidate, ...]
    refused: tuple[Candidate, ...]


_unhealthy: dict[tuple[str, str, str], str] = {}


def set_aside(candidate: Candidate, problem: Problem, reason: str) -> None:
    """Do not choose this implementation for this op and dtype again in this process."""
    _unhealthy[(candidate.name, problem.op, problem.dtype)] = reason


def heal() -> None:
    """Give every implementation that was set aside another chance."""
    _unhealthy.clear()
    _kept_broken.clear()


def candidates(
    op: Op, problem: Problem, inputs: arrays.Inputs, settings: Settings
) -> tuple[list[Candidate], list[Candidate]]:
    """Eligible candidates, best first, and refused ones with every reason."""
    eligible: list[Candidate] = []
    refused: list[Candidate] = []
    for entry in registry.registered().values():
        if not _may_be_asked_for(entry.name, settings):
            reason = f"using(backend={settings.backend!r})"
            refused.append(Candidate(entry.name, Device("-", _nothing()), refused=(reason,)))
            continue  # its library need not be loaded
        if not entry.usable:
            nowhere, broken = Device("-", _nothing()), entry.error is not None
            refused.append(Candidate(entry.name, nowhere, refused=(entry.why,), broken=broken))
            continue
        assert entry.backend is not None
        for device in entry.backend.devices():
            found = _candidate(entry, device, op, problem, inputs, settings)
            (refused if found.refused else eligible).append(found)
    return _frozen_first(_ranked(eligible), problem, settings), refused


def choose(op: Op, problem: Problem, inputs: arrays.Inputs, settings: Settings) -> Choice:
    """The choice for a problem.

    Raises:
        UnsupportedError: nobody can run it, with all reasons.
        BackendMissingError, PluginError, WrongResultError, CompileError: the backend that was
            asked for cannot be had.
    """
    if settings.backend is not None:
        registry.backend(settings.backend.partition("[")[0])
    eligible, refused = candidates(op, problem, inputs, settings)
    keep_broken(problem, refused)
    forced = settings.backend is not None
    for candidate in eligible:
        try:
            kernel = build(op, problem, candidate)
        except (CompileError, WrongResultError) as error:
            if forced or candidate.frozen:
                raise
            refused.append(replace(candidate, refused=(_short(error),)))
            continue
        basis = basis_of([candidate], settings)
        left = tuple(c for c in eligible if all(c.name != r.name for r in refused))
        return Choice(problem, candidate, kernel, basis, left, tuple(refused))
    reasons = {c.name: c.refused for c in refused if not forced or _is_asked_for(c, settings)}
    wish = f"backend {settings.backend!r}" if forced else "any usable backend"
    raise UnsupportedError(f"{problem} cannot be run by {wish}:", reasons or _absent(settings))


def basis_of(eligible: Sequence[Candidate], settings: Settings) -> str:
    """What decides among candidates, in words."""
    if settings.backend is not None:
        return "override"
    if not eligible:
        return "nobody is eligible"
    first = eligible[0]
    assert first.estimate is not None
    return "frozen choice" if first.frozen else first.estimate.basis


def build(op: Op, problem: Problem, candidate: Candidate) -> Kernel:
    """Compile a candidate's kernel after its correctness gate.

    Raises:
        CompileError: it does not build.
        WrongResultError: results outside of the op's error bound.
    """
    assert candidate.implementation is not None and candidate.route is not None
    pass_gate(op, problem, candidate)
    posed = candidate.posed(problem)
    return candidate.implementation.compile(posed, candidate.device, candidate.config)


def _candidate(
    entry: registry.Registered,
    device: Device,
    op: Op,
    problem: Problem,
    inputs: arrays.Inputs,
    settings: Settings,
) -> Candidate:
    assert entry.backend is not None
    blank = Candidate(entry.name, device)
    try:
        implementation = registry.implementation(entry, op.name)
    except PluginError as error:
        return replace(blank, refused=(_short(error),), broken=True)
    if implementation is None:
        return replace(blank, refused=(f"has no {op.name}",))
    blank = replace(blank, implementation=implementation)
    route = arrays.route(inputs, entry.backend.families, device.id, problem.results)
    ready = replace(blank, route=route)
    reasons = _not_wanted(blank, problem, inputs, settings)
    reasons += implementation.why_not(ready.posed(problem), device)
    if reasons:
        return replace(blank, refused=tuple(reasons))
    config, expected = _best_config(ready, op, problem, inputs)
    ready = replace(ready, config=config, estimate=expected)
    if settings.backend is None and (verdict := _verdict(problem, ready)):
        return replace(ready, refused=(_outside(op.name, problem, verdict),))
    return ready


def _not_wanted(
    candidate: Candidate, problem: Problem, inputs: arrays.Inputs, settings: Settings
) -> list[str]:
    """Reasons that lie in the call and its settings, not in the implementation."""
    reasons = []
    device, implementation = candidate.device, candidate.implementation
    assert implementation is not None
    if not _is_asked_for(candidate, settings):
        reasons.append(f"using(backend={settings.backend!r})")
    if settings.device is not None and device.id != settings.device:
        reasons.append(f"runs on {device.id} (using(device={settings.device!r}))")
    if device.id != inputs.device and not (settings.offload or settings.device == device.id):
        reasons.append(f"runs on {device.id}, the data is on {inputs.device} (offload=True moves)")
    if settings.deterministic and not trait(implementation, "DETERMINISTIC", True):
        reasons.append("is not deterministic (deterministic=True)")
    native = registry.backend(candidate.backend).families
    for constraint in sorted(inputs.constraints):
        kept = trait(implementation, constraint.upper(), False) and inputs.family.name in native
        if not kept:
            reasons.append(_CONSTRAINTS.get(constraint, constraint))
    key = (candidate.name, problem.op, problem.dtype)
    if key in _unhealthy and settings.backend is None:
        reasons.append(f"set aside: {_unhealthy[key]}")
    return reasons


_CONSTRAINTS = {
    "differentiable": "would lose the gradient that the arrays ask for",
    "traceable": "cannot be traced by the arrays' library",
}


def _may_be_asked_for(backend: str, settings: Settings) -> bool:
    return settings.backend is None or settings.backend.partition("[")[0] == backend


def _is_asked_for(candidate: Candidate, settings: Settings) -> bool:
    return settings.backend in (None, candidate.backend, candidate.name)


def _best_config(
    candidate: Candidate, op: Op, problem: Problem, inputs: arrays.Inputs
) -> tuple[Config, estimate.Estimate]:
    assert candidate.implementation is not None
    model = evidence.model_time(candidate.device.id, op.cost(problem))
    known = evidence.known(op.name, candidate.backend, candidate.device.runtime, problem.dtype)
    posed = candidate.posed(problem)
    configs: Sequence[Config] = candidate.implementation.configs(posed, candidate.device) or [{}]
    best: tuple[Config, estimate.Estimate] | None = None
    for config in configs:
        own = known.configs.get(evidence.config_key(config))
        if own is None and best is not None:
            continue  # only the default may win unmeasured
        expected = estimate.estimate(own or known.pooled, problem, model, known.others)
        if best is None or expected.cautious < best[1].cautious * (1 - TIE):
            best = (config, expected)
    assert best is not None
    return best[0], _with_conversions(best[1], candidate, inputs)


def _with_conversions(
    expected: estimate.Estimate, candidate: Candidate, inputs: arrays.Inputs
) -> estimate.Estimate:
    """Records are made on NumPy arrays; other families reach a backend at another price."""
    assert candidate.route is not None
    extra = evidence.conversion_time(inputs.family.name, candidate.route, len(inputs.specs) + 1)
    return replace(expected, time=max(expected.time + extra, 1e-8))


def _ranked(eligible: list[Candidate]) -> list[Candidate]:
    """Best expected time first; inside a tie the order of preference decides."""
    if not eligible:
        return []
    left = sorted(eligible, key=_time)
    near = [c for c in left if _time(c) <= _time(left[0]) * (1 + _tie(left[0], c))]
    first = max(near, key=lambda c: (registry.backend(c.backend).priority, -_time(c)))
    return [first, *(c for c in left if c is not first)]


def _tie(best: Candidate, other: Candidate) -> float:
    """Share within which two times are a tie: wider where both were measured and are noisy."""
    assert best.estimate is not None and other.estimate is not None
    if best.estimate.basis == other.estimate.basis == estimate.EXACT:
        return max(TIE, min(best.estimate.error, other.estimate.error, 2 * TIE))
    return TIE


def _time(candidate: Candidate) -> float:
    assert candidate.estimate is not None
    return candidate.estimate.cautious


def gated(problem: Problem, candidate: Candidate) -> bool:
    """Whether the gate has judged a candidate on problems like this."""
    return _verdict(problem, candidate) is not None


def pass_gate(op: Op, problem: Problem, candidate: Candidate) -> None:
    """Check a candidate's results once for problems like this; the verdict is kept.

    Raises:
        WrongResultError: results outside of the op's error bound, or it failed to give any.
    """
    from portable import records

    verdict = _verdict(problem, candidate)
    if verdict is None:
        verdict = _judge(op, problem, candidate)
        status, store = gate.status_of(verdict), records.default_store()
        if status == "oom":  # says as much about what else runs here as about the candidate
            set_aside(candidate, problem, verdict[0].removeprefix(gate.MARK))
        else:
            store.put_fact("gate", _gate_key(problem, candidate), verdict)
        if verdict:
            store.add([filing.blank(problem, candidate, status, "; ".join(verdict))])
    if verdict:
        raise WrongResultError(
            f"{candidate.name} {_outside(op.name, problem, verdict)}", gate.status_of(verdict)
        )


def keep_broken(problem: Problem, refused: Sequence[Candidate]) -> None:
    """A record of every backend or implementation that cannot be imported: once per op and
    reason."""
    from portable import records

    for candidate in refused:
        seen, reason = (candidate.name, problem.op), "; ".join(candidate.refused)
        if not candidate.broken or _kept_broken.get(seen) == reason:
            continue
        _kept_broken[seen] = reason
        store, key = records.default_store(), " ".join(seen)
        if store.fact("broken", key) != reason:
            store.put_fact("broken", key, reason)
            store.add([filing.blank(problem, candidate, "exception", reason)])


_kept_broken: dict[tuple[str, str], str] = {}


def _judge(op: Op, problem: Problem, candidate: Candidate) -> list[str]:
    """What is wrong: by the gate here, or in a child process for whom we do not trust."""
    assert candidate.implementation is not None and candidate.route is not None
    if trial.needed(candidate.backend):
        return trial.run(candidate.posed(problem), candidate)
    subject = gate.Subject(
        candidate.backend, candidate.device, candidate.implementation, candidate.config
    )
    return gate.failures(op, candidate.posed(problem), subject, candidate.route.native)


def _verdict(problem: Problem, candidate: Candidate) -> list[str] | None:
    """What the gate found earlier; None when it was not run for such a problem."""
    from portable import records

    found: Any = records.default_store().fact("gate", _gate_key(problem, candidate))
    return found if isinstance(found, list) else None


def _outside(op: str, problem: Problem, verdict: list[str]) -> str:
    if gate.status_of(verdict) != "incorrect":
        return f"fails on {op} ({problem.dtype}): {verdict[0].removeprefix(gate.MARK)}"
    return f"is outside of the error bound of {op} ({problem.dtype}): {verdict[0]}"


def _gate_key(problem: Problem, candidate: Candidate) -> str:
    return evidence.config_key(
        {
            "op": problem.op,
            "contract": problem.version,
            "dtype": problem.dtype,
            "layouts": ",".join(t.layout for t in candidate.posed(problem).tensors),
            "operands": ",".join(problem.operands),
            "precision": problem.precision,
            "candidate": candidate.name,
            "config": evidence.config_key(candidate.config),
            "source": evidence.source_hash(candidate.implementation),
            "versions": evidence.config_key(evidence.versions(candidate.backend)),
            "device": machine.fingerprint(candidate.device.id),
        }
    )


def _frozen_first(
    eligible: list[Candidate], problem: Problem, settings: Settings
) -> list[Candidate]:
    """The candidate that a frozen choice table names comes first; without an entry, as ranked.

    Raises:
        UnsupportedError: the table names a candidate that cannot run the problem here.
    """
    if settings.choices is None:
        return eligible
    from portable import frozen

    wanted = frozen.load(settings.choices).get(problem)
    if wanted is None:
        return eligible
    for candidate in eligible:
        if candidate.name == wanted.candidate:
            first = replace(candidate, config=wanted.config, frozen=True)
            return [first, *(c for c in eligible if c is not candidate)]
    raise UnsupportedError(
        f"the frozen choice {wanted.candidate!r} of {settings.choices} cannot run {problem} here; "
        "freeze again on this machine, or drop using(choices=...)"
    )


def _absent(settings: Settings) -> dict[str, list[str]]:
    return {str(settings.backend): ["no such runtime on any device here"]}


def _short(error: Exception) -> str:
    return str(error).splitlines()[0]


def _nothing() -> Any:
    from portable.device import DeviceInfo

    return DeviceInfo(name="-")
