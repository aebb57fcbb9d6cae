"""Measure the cold-start priors of this machine and write them as data.

    python -m bench.make_priors [--minutes 15] [--db build/priors.sqlite]

Every problem of `bench.prior_problems` is a contest between all backends that can run it here. The
records go to `hwdb/priors/<machine>/<op>.jsonl`, the machine's roofs and who measured what to
`machine.json` beside them, and the price of array conversions to `hwdb/priors/conversions.json`.

The store is kept: a later run measures only what no longer holds (another version or source of a
backend) or was not reached, so that a time box may be spent in several goes.

Of each record the five fastest samples are shipped: a loaded machine adds time, it never takes
any away. `details.kept` says of how many.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

KEPT = 5
LEAST = 4
"""Samples that a contender needs."""
PRIORS = Path(__file__).parent.parent / "hwdb" / "priors"


def main() -> None:
    """Measure, then write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of timing a problem")
    parser.add_argument("--configs", type=int, default=1, help="configs of each OpenCL kernel")
    parser.add_argument("--slowest", type=float, default=25.0)
    parser.add_argument("--db", default="build/priors.sqlite")
    wish = parser.parse_args()
    Path(wish.db).parent.mkdir(parents=True, exist_ok=True)
    os.environ["PORTABLE_DB"] = str(Path(wish.db).absolute())
    measure(wish)
    print(write())


def measure(wish: argparse.Namespace) -> None:
    """Contests until the time is over."""
    from bench.prior_problems import problems
    from portable import calibrate, contest, engine, machine, records

    end = time.monotonic() + wish.minutes * 60
    if machine.device("cpu").roofs is None and wish.minutes > 0:
        print(calibrate.calibrate(probes=False))
    store = records.default_store()
    for index, problem in enumerate(spread(problems())):
        if time.monotonic() > end:
            print(f"{index} problems reached")
            return
        only = entrants(problem, wish)
        if not only:
            continue
        start = time.monotonic()
        result = contest.contest(problem, budget=wish.budget, only=only)
        store.add(result.records)
        engine.refresh_evidence()
        best = result.best()
        name = contest.candidate_name(best) if best else "nobody"
        print(f"{index:4} {time.monotonic() - start:5.1f} s  {name:14} {problem}", flush=True)


def entrants(problem, wish: argparse.Namespace) -> list:
    """(candidate, config) still to be measured: of compiled kernels few configs, of libraries all.

    Who is known to be far behind on problems like this one is not measured again.
    """
    from portable import estimate, explaining, records

    valid = [r for r in records.default_store().records(op=problem.op) if r.problem == problem]
    valid = [r for r in valid if fresh(r)]
    taken: dict = defaultdict(int)
    for r in valid:
        key = (r.backend, r.runtime, json.dumps(dict(r.config)))
        taken[key] += len(r.samples) if r.samples else LEAST
    best = min((min(r.samples) for r in valid if r.samples), default=0.0)
    contenders = {
        (r.backend, r.runtime, json.dumps(dict(r.config)))
        for r in valid
        if r.samples and min(r.samples) < 4 * best
    }
    # One sample tells enough of who is far behind; who may win needs more.
    held = {key for key, n in taken.items() if n >= LEAST or (key not in contenders and n >= 2)}
    eligible = explaining.of_problem(problem, "cpu").candidates
    limit = wish.slowest * min((c.estimate.time for c in eligible), default=0.0)
    found = []
    for candidate in eligible:
        guess = candidate.estimate.basis in (estimate.ROOFLINE, estimate.EFFICIENCY)
        if candidate.estimate.time > limit and not guess:
            continue
        every = candidate.implementation.configs(problem, candidate.device) or [{}]
        own = [candidate.config, *(c for c in every if c != candidate.config)]
        most = wish.configs if candidate.device.runtime else None
        found += [
            (candidate.name, config)
            for config in own[:most]
            if (candidate.backend, candidate.device.runtime, json.dumps(dict(config))) not in held
        ]
    return found


def fresh(record) -> bool:
    """Whether a record, of a success or of a failure, still holds."""
    from portable import evidence

    return evidence.why_stale(record) is None


def spread(problems: Iterable) -> list:
    """Round robin over (op, dtype), in order of appearance: any prefix covers all of them."""
    groups: dict = defaultdict(list)
    for problem in problems:
        groups[problem.op, problem.dtype].append(problem)
    weight = {"matmul": 4, "linear": 2, "attention": 2, "conv2d": 2}
    found = []
    while any(groups.values()):
        for (op, _), group in groups.items():
            found += group[: weight.get(op, 1)]
            del group[: weight.get(op, 1)]
    return found


def write() -> str:
    """The store's valid records as files; what was done, in words."""
    from portable import evidence, machine, records
    from portable.records.record import utc_now

    spec = machine.device("cpu").spec
    info = machine.device("cpu").info
    key = f"{spec.key if spec else info.architecture}-{info.units}-units"
    folder = PRIORS / key
    folder.mkdir(parents=True, exist_ok=True)
    best: dict = {}
    for record in records.default_store().records():
        if record.ok and evidence.why_stale(record) is None:
            who = (record.problem, record.backend, record.runtime, json.dumps(record.config))
            if who in best:  # measured in several goes
                record = replace(record, samples=(*best[who].samples, *record.samples))
            best[who] = record
    lines: dict[str, list[str]] = defaultdict(list)
    for record in best.values():
        lines[record.problem.op].append(json.dumps(trimmed(record), separators=(",", ":")))
    for old in folder.glob("*.jsonl"):
        old.unlink()
    for op, rows in lines.items():
        (folder / f"{op}.jsonl").write_text("\n".join(sorted(rows)) + "\n", encoding="utf-8")
    roofs = machine.device("cpu").roofs
    about = {
        "machine": f"{info.name}, {info.units} cores, {spec.name if spec else info.architecture}",
        "hardware": spec.key if spec else "",
        "units": info.units,
        "measured": utc_now()[:10],
        "by": "python -m bench.make_priors",
        "note": "a virtual machine, idle but for this; the fastest samples of each are kept",
        "roofs": roofs.flat() if roofs else {},
    }
    (folder / "machine.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    prices = records.default_store().fact("conversions", machine.fingerprint("cpu")) or {}
    conversions = {"machine": key, "measured": about["measured"], "seconds": prices}
    (PRIORS / "conversions.json").write_text(
        json.dumps(conversions, indent=1) + "\n", encoding="utf-8"
    )
    size = sum(f.stat().st_size for f in folder.iterdir())
    problems = len({r.problem for r in best.values()})
    return f"{len(best)} records of {problems} problems, {size / 1e6:.2f} MB in {folder.name}"


def trimmed(record) -> dict:
    """The record as JSON with its fastest samples; roofs are in machine.json, once."""
    fastest = tuple(float(f"{s:.4g}") for s in sorted(record.samples)[:KEPT])
    kept = replace(
        record, samples=fastest, roofs={}, details={"kept": f"fastest of {len(record.samples)}"}
    )
    return {k: v for k, v in kept.to_json().items() if v not in ("", {}, None)}


if __name__ == "__main__":
    main()
