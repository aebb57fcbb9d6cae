"""Units of all backends x targets, built by worker processes, judged, in order."""

from __future__ import annotations

import math
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from portable import isolate, registry
from portable.crosscompile import cache, worker
from portable.crosscompile.facts import KINDS, Built, Finding, Row, Skipped, Target, Unit
from portable.crosscompile.judge import judge
from portable.crosscompile.problems import representative
from portable.crosscompile.targets import DEFAULT_TARGETS, resolve
from portable.errors import UnknownNameError
from portable.op import Problem
from portable.records.problem_json import problem_to_json

TIMEOUT = 180.0
"""[s] for one build; the slowest of ours takes about 20 s on a busy laptop core."""
Progress = Callable[[int, int, str], None]
"""(done, total, what)"""


@dataclass(frozen=True, slots=True)
class Report:
    """The rows of a run.

    Attributes:
        rows: by backend, op, problem and target.
        skipped: what could not be tried at all, with reasons.
        versions: compilers by backend.
        unbuilt: what was left out, because it is not in the cache and nothing was to be built, or
            because the time was up.
    """

    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...]
    versions: dict[str, dict[str, str]]
    unbuilt: tuple[tuple[Unit, Target], ...] = ()


def crosscompile(
    *,
    backends: Sequence[str] = (),
    ops: Sequence[str] = (),
    targets: Sequence[str] = (),
    problems: Sequence[tuple[str, Problem]] = (),
    every_config: bool = False,
    jobs: int = 0,
    timeout: float = TIMEOUT,
    budget: float = math.inf,
    use_cache: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Builds kernels for targets and judges them; needs no GPU.

    Args:
        backends: names; all that can cross-compile when empty.
        ops: names; all when empty.
        targets: architectures or devices of the database; DEFAULT_TARGETS when empty.
        problems: (label, problem), of which those of `ops` count; representative ones when empty.
        every_config: build all configs a backend would try, not only its first guess.
        jobs: worker processes; the number of CPUs when 0.
        timeout: [s] for one build; a longer one is a row with status "hang".
        budget: [s] for all builds; with 0 only what the cache has becomes a row.
        use_cache: whether earlier builds of the same source and compiler count.
        progress: called after each build.

    Raises:
        UnknownNameError: an unknown backend, op or target.
    """
    hooks = worker.hooks()
    for name in backends:
        if name not in hooks:
            raise UnknownNameError("cross-compiling backend", name, hooks)
    for name in ops:
        registry.op(name)
    names = list(ops) or list(registry.op_names())
    work = [(label, p) for label, p in problems if p.op in names]
    if not problems:
        work = list(representative(names))
    where = [resolve(name) for name in targets or DEFAULT_TARGETS]
    units: list[tuple[Unit, Target]] = []
    skipped: list[Skipped] = []
    versions = {}
    for name in backends or hooks:
        missing = hooks[name].why_missing()
        if missing is not None:
            skipped.append(Skipped.missing(name, missing))
            continue
        versions[name] = dict(hooks[name].versions())
        if hasattr(hooks[name], "variants") and not (problems and hasattr(hooks[name], "configs")):
            units += _variants(name, hooks[name], names, where, skipped)
        else:
            units += _units(name, hooks[name], work, where, every_config, skipped)
    building = Building(jobs, timeout, budget, use_cache, progress)
    return report_of(units, skipped, versions, building)


def _units(
    name: str,
    hook: Any,
    work: Iterable[tuple[str, Problem]],
    targets: Sequence[Target],
    every_config: bool,
    skipped: list[Skipped],
) -> list[tuple[Unit, Target]]:
    """All launches of one backend; refusals go to `skipped`."""
    found = []
    for label, problem in work:
        for target in targets:
            why = hook.why_not_target(target.architecture)
            if why:
                skipped.append(Skipped(name, why, target.name))
                continue
            units = target.spec.units
            configs = hook.configs(problem.op, problem, target.architecture, units)
            if isinstance(configs, str):
                skipped.append(Skipped(name, configs, target.name, problem.op, label))
                continue
            for config in configs if every_config else configs[:1]:
                parts = hook.describe(problem.op, problem, target.architecture, units, config)
                for index, part in enumerate(parts):
                    unit = _unit(name, label, problem, dict(config), index, part)
                    found.append((unit, target))
    return found


def _variants(
    name: str, hook: Any, ops: Sequence[str], targets: Sequence[Target], skipped: list[Skipped]
) -> list[tuple[Unit, Target]]:
    """The listed kernels of a backend whose kernels do not follow from a problem."""
    found = []
    for target in targets:
        why = hook.why_not_target(target.architecture)
        if why:
            skipped.append(Skipped(name, why, target.name))
            continue
        for variant in hook.variants(target.architecture):
            if variant["op"] in ops:
                found.append((Unit(backend=name, **variant), target))
    return found


def _unit(
    backend: str, label: str, problem: Problem, config: dict[str, Any], index: int, part: Any
) -> Unit:
    return Unit(
        backend=backend,
        op=problem.op,
        label=label,
        kernel=part["kernel"],
        config=part.get("config", config),
        index=index,
        grid=part["grid"],
        source_hash=part["source_hash"],
        problem=problem,
        extent=tuple(part.get("extent", ())),
        tile=tuple(part.get("tile", ())),
        factor=part.get("factor", ""),
        source=part.get("source", {}),
    )


@dataclass(frozen=True, slots=True)
class Building:
    """How units are built.

    Attributes:
        jobs: worker processes; the number of CPUs when 0.
        timeout: [s] for one build.
        budget: [s] for all of them.
        use_cache: whether earlier builds count.
        progress: called after each build.
    """

    jobs: int = 0
    timeout: float = TIMEOUT
    budget: float = math.inf
    use_cache: bool = True
    progress: Progress | None = None


def report_of(
    units: Sequence[tuple[Unit, Target]],
    skipped: Iterable[Skipped],
    versions: dict[str, dict[str, str]],
    how: Building,
) -> Report:
    """Builds and judges units, in their order."""
    built = _build_all(units, versions, how)
    pairs = list(zip(units, built, strict=True))
    return Report(
        tuple(judge(u, t, b) for (u, t), b in pairs if b is not None),
        tuple(dict.fromkeys(skipped)),
        versions,
        tuple(unit for unit, b in pairs if b is None),
    )


def _build_all(
    units: Sequence[tuple[Unit, Target]], versions: dict[str, dict[str, str]], how: Building
) -> list[Built | None]:
    """Builds in order of units, None where the time was up; equal machine code is built once."""
    end = time.monotonic() + how.budget
    keys = [cache.key(u, t.architecture, versions.get(u.backend, {})) for u, t in units]
    results: dict[str, Built | None] = {}
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    waiting = 0
    for index, key in enumerate(keys):
        if key in results:
            continue
        results[key] = cache.load(key) if how.use_cache else None
        if results[key] is None:
            todo.put(index)
            waiting += 1
    lock, done = threading.Lock(), [0]

    def work() -> None:
        with isolate.Worker() as child:
            while (left := end - time.monotonic()) > 0:
                try:
                    index = todo.get_nowait()
                except queue.Empty:
                    return
                unit, target = units[index]
                limit = min(how.timeout, left)
                built = build_one(child, unit, target, versions.get(unit.backend, {}), limit)
                if built.status == "hang" and limit < how.timeout:
                    return  # the budget ended, which says nothing of the compiler
                cache.store(keys[index], built)
                with lock:
                    results[keys[index]] = built
                    done[0] += 1
                    if how.progress is not None:
                        how.progress(done[0], waiting, f"{unit.backend} {unit.op} {target.name}")

    count = min(how.jobs or os.cpu_count() or 1, waiting) if how.budget > 0 else 0
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[key] for key in keys]


def build_one(
    child: isolate.Worker, unit: Unit, target: Target, versions: dict[str, str], timeout: float
) -> Built:
    """One build in a child process; its death or hang is a result."""
    task = {
        "backend": unit.backend, "op": unit.op, "config": dict(unit.config), "index": unit.index,
        "architecture": target.architecture, "units": target.spec.units,
        "problem": problem_to_json(unit.problem) if unit.problem else None,
        "source": dict(unit.source),
    }  # fmt: skip
    outcome = child.run("portable.crosscompile.worker:build", task, timeout=timeout)
    compiler = ", ".join(f"{name} {version}" for name, version in versions.items())
    if outcome.ok:
        return replace(cache.from_json(outcome.value), compiler=compiler)
    status = "error" if outcome.status == "exception" else outcome.status
    log = outcome.output or outcome.reason
    return Built(status, outcome.reason, log, seconds=outcome.seconds, compiler=compiler)


NOT_BUILT = ("fails", "hang", "crash", "cannot-launch")
"""Kinds of findings that always count for `--fail-on`: what does not build was not judged."""


def checked(kinds: Sequence[str]) -> Sequence[str]:
    """The kinds, when they exist.

    Raises:
        UnknownNameError: a kind that does not exist.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownNameError("kind of finding", kind, KINDS)
    return kinds


def failures(report: Report, kinds: Sequence[str]) -> list[tuple[Row, Finding]]:
    """Rows with a finding of one of the kinds (`--fail-on`), or that do not build; with the worst.

    Raises:
        UnknownNameError: a kind that does not exist.
    """
    wanted = {*checked(kinds), *NOT_BUILT}
    found = []
    for row in report.rows:
        bad = next((finding for finding in row.findings if finding.kind in wanted), None)
        if bad is not None:
            found.append((row, bad))
    return found
