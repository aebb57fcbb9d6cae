"""Recorded kernel timings of real GPUs as simulated devices: choice of a config on a new GPU.

    python -m tests.selection.hub [--folder ../shared/hub] [--budgets 1 20 40] [--nested]

Reads T4 files of brute-forced configs (`convolution_<GPU>_T4.json.gz`, MIT licence, (c)
AutoTuningAssociation) from beside the checkout; nothing of them is part of this project. One GPU is
left out at a time; what is known are the five others and public facts of the one left out.

*No measurement*: the ladder of evidence. GPUs of the same architecture decide alone where there
are any; otherwise the config with the best harmonic mean over all decides.

*A budget*: `portable.configs.Search`, which `portable tune` uses, one measurement at a time. What
it expects is the mean of the known GPUs' log efficiencies, nearer relatives counted more.

*Nested*: the search's settings are chosen for every GPU left out on the five others alone: each of
them is left out in turn, with all of the rest and with only one of the rest known, so that bad
transfer counts as well; the settings with the best harmonic mean (to three digits, the first of
equals) are used.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from portable.configs import SURPRISE, Search, Spread, transferred

FOLDER = Path(__file__).parents[3] / "shared" / "hub"
RELATIVES = {  # vendor and architecture, as drivers report them
    "A100": ("NVIDIA", "sm_80"), "A4000": ("NVIDIA", "sm_86"), "A6000": ("NVIDIA", "sm_86"),
    "MI250X": ("AMD", "gfx90a"), "W6600": ("AMD", "gfx1032"), "W7800": ("AMD", "gfx1100"),
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """Settings of the search.

    Attributes:
        spread, surprise: see `portable.configs`.
        vendor, architecture: what a GPU of the same one counts against one of neither.
    """

    spread: Spread = field(default_factory=Spread)
    surprise: float = SURPRISE
    vendor: float = 8.0
    architecture: float = 11.0


@dataclass
class Hub:
    """Times of the same configs on several GPUs.

    Attributes:
        gpus: names.
        parameters: names of the parameters.
        configs: their values, one row per config.
        times: one row per GPU; infinite where a config does not run.
    """

    gpus: list[str]
    parameters: list[str]
    configs: np.ndarray
    times: np.ndarray

    @property
    def efficiency(self) -> np.ndarray:
        """Best time of the GPU over the config's."""
        return self.times.min(axis=1, keepdims=True) / self.times


def load(folder: Path = FOLDER) -> Hub:
    """Read the files of all GPUs."""
    found: dict[str, dict[tuple, float]] = {}
    for gpu in RELATIVES:
        with gzip.open(folder / f"convolution_{gpu}_T4.json.gz", "rt", encoding="utf-8") as file:
            rows = json.load(file)["results"]
        found[gpu] = {tuple(sorted(r["configuration"].items())): _time(r) for r in rows}
    keys = sorted(set().union(*found.values()))
    times = [[found[gpu].get(key, np.inf) for key in keys] for gpu in found]
    values = np.array([[float(v) for _, v in key] for key in keys])
    return Hub(list(found), [name for name, _ in keys[0]], values, np.array(times))


def _time(row: dict) -> float:
    if row["invalidity"] != "correct":
        return float("inf")
    return next((m["value"] for m in row["measurements"] if m["name"] == "time"), float("inf"))


def first_choice(hub: Hub, new: int, others: Sequence[int] | None = None) -> int:
    """The config for a GPU nobody has measured on."""
    known = _others(hub, new) if others is None else others
    kin = [g for g in known if _architecture(hub, g) == _architecture(hub, new)] or list(known)
    return int(np.argmin((1 / np.maximum(hub.efficiency[kin], 1e-3)).sum(axis=0)))


def search(
    hub: Hub,
    new: int,
    budget: int,
    rule: Rule | None = None,
    others: Sequence[int] | None = None,
    seed: int = 0,
) -> list[int]:
    """The configs measured on a new GPU, in order; the first is `first_choice`."""
    rule = rule or Rule()
    known = _others(hub, new) if others is None else others
    weights = [_weight(hub, g, new, rule) for g in known]
    configs = [dict(zip(hub.parameters, row, strict=True)) for row in hub.configs.tolist()]
    expected = transferred([hub.times[g] for g in known], weights)
    found = Search(configs, expected, rule.spread, rule.surprise, seed)
    turn = first_choice(hub, new, known)
    while True:
        found.add(turn, float(hub.times[new, turn]))
        if len(found.measured) == budget:
            return list(found.measured)
        (turn,) = found.propose()


def _others(hub: Hub, new: int) -> list[int]:
    return [g for g in range(len(hub.gpus)) if g != new]


def _architecture(hub: Hub, gpu: int) -> str:
    return RELATIVES[hub.gpus[gpu]][1]


def _weight(hub: Hub, gpu: int, new: int, rule: Rule) -> float:
    (vendor, architecture), other = RELATIVES[hub.gpus[gpu]], RELATIVES[hub.gpus[new]]
    if architecture == other[1]:
        return rule.architecture
    return rule.vendor if vendor == other[0] else 1.0


def rules() -> list[Rule]:
    """Settings that the nested choice is made from."""
    grid = itertools.product(
        (0.7, 0.35), (1.0, 0.5, 2.0), (3.0, 1.0), (0.1, 0.3), ((8.0, 11.0), (3.0, 6.0), (1.0, 1.0))
    )
    return [
        Rule(
            Spread(
                trust=trust, taste=0.3 * size, pair=0.3 * size, switches=0.3 * size,
                local=0.2 * size, reach=reach,
            ),
            surprise, *kin,
        )
        for reach, size, surprise, trust, kin in grid
    ]  # fmt: skip


def inner(hub: Hub, left_out: int) -> Iterator[tuple[int, list[int]]]:
    """(GPU to be found, GPUs known) without the one left out."""
    five = _others(hub, left_out)
    for new in five:
        rest = [g for g in five if g != new]
        yield new, rest
        yield from ((new, [one]) for one in rest)


def nested(hub: Hub, budget: int) -> list[tuple[Rule, float]]:
    """For every GPU left out: the settings chosen without it, and what they reach on it."""
    kept: dict[tuple, float] = {}

    def reach(new: int, others: Sequence[int], rule: Rule) -> float:
        key = (new, tuple(others), rule)
        if key not in kept:
            kept[key] = _reached(hub, search(hub, new, budget, rule, others), new)
        return kept[key]

    found = []
    for new in range(len(hub.gpus)):
        scores = [
            round(harmonic_mean([reach(g, known, rule) for g, known in inner(hub, new)]), 3)
            for rule in rules()
        ]
        rule = rules()[int(np.argmax(scores))]
        found.append((rule, reach(new, _others(hub, new), rule)))
    return found


def _reached(hub: Hub, tried: list[int], new: int) -> float:
    return float(hub.efficiency[new, tried].max())


def harmonic_mean(values) -> float:
    """n / sum(1 / v)."""
    values = np.asarray(values, float)
    return len(values) / float((1 / values).sum())


def reached(hub: Hub, budget: int, seed: int = 0) -> list[float]:
    """Efficiency of the best config found on each GPU left out; budget 1: unmeasured choice."""
    tried = [search(hub, new, budget, seed=seed) for new in range(len(hub.gpus))]
    return [_reached(hub, one, new) for new, one in enumerate(tried)]


def by_chance(hub: Hub, budget: int, draws: int = 1000) -> list[float]:
    """Expected efficiency of the best of as many configs drawn at random."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, hub.times.shape[1], (draws, budget))
    return [float(row[drawn].max(axis=1).mean()) for row in hub.efficiency]


def isolated(hub: Hub) -> tuple[float, np.ndarray]:
    """What no other GPU tells of the first one (A100): its best efficiency without read-only
    loads into shared memory, and how that switch's effect there (log time, over configs that differ
    in nothing else) correlates with its effect on the others."""
    read, shared = (hub.parameters.index(n) for n in ("read_only", "use_shmem"))
    index = {tuple(row): i for i, row in enumerate(hub.configs.tolist())}
    pairs = []
    for row, i in index.items():
        twin = (*row[:read], 0.0, *row[read + 1 :])
        if row[read] and row[shared] and twin in index:
            pairs.append((i, index[twin]))
    times = np.log(hub.times[:, np.array(pairs)])
    times = times[:, np.isfinite(times).all(axis=(0, 2))]
    effect = times[:, :, 1] - times[:, :, 0]
    without = ~((hub.configs[:, read] == 1) & (hub.configs[:, shared] == 1))
    return float(hub.efficiency[0, without].max()), np.corrcoef(effect)[0, 1:]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--budgets", type=int, nargs="*", default=[1, 20, 40])
    parser.add_argument("--seeds", type=int, default=10, help="of what is drawn at random")
    parser.add_argument("--nested", action="store_true", help="settings chosen without the GPU")
    wish = parser.parse_args()
    hub = load(wish.folder)
    print("budget", *hub.gpus, "harmonic mean")
    for budget in wish.budgets:
        rows = [reached(hub, budget, seed) for seed in range(wish.seeds if budget > 1 else 1)]
        _line(f"{budget}", np.mean(rows, axis=0))
        if budget > 1:
            means = [harmonic_mean(row) for row in rows]
            print(f"  harmonic means by seed: {min(means):.4f} to {max(means):.4f}")
            _line(f"{budget} drawn at random", by_chance(hub, budget))
    if wish.nested:
        chosen = nested(hub, 20)
        for gpu, (rule, _) in zip(hub.gpus, chosen, strict=True):
            print(gpu, rule)
        _line("20 nested", [found for _, found in chosen])
    best, correlation = isolated(hub)
    print(
        f"A100 without read-only loads into shared memory: {best:.3f}; correlation of their effect "
        f"with that on the others: {' '.join(f'{c:.2f}' for c in correlation)}"
    )


def _line(what: str, row: list[float]) -> None:
    print(what, *(f"{e:.3f}" for e in row), f"{harmonic_mean(row):.4f}")


if __name__ == "__main__":
    main()
