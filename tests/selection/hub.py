"""Recorded kernel timings of real GPUs as simulated devices: choice of a config on a new GPU.

    python -m tests.selection.hub [--folder ../shared/hub]

Reads T4 files of brute-forced configs (`convolution_<GPU>_T4.json.gz`, MIT licence, (c)
AutoTuningAssociation) from beside the checkout; nothing of them is part of this project. One GPU is
left out at a time; what is known are the five others and public facts of the one left out.

*No measurement*: the ladder of evidence. GPUs of the same architecture decide alone where there
are any; otherwise the config with the best harmonic mean over all decides.

*A budget*: the model is a Gaussian process over configs. Its mean is the log efficiency on the
known GPUs, nearer relatives counted more; what the new GPU differs by is a weight per known GPU, a
taste per parameter, one per combination of switches, and a local remainder. Each measurement goes
to the config with the highest upper bound.
"""

from __future__ import annotations

import argparse
import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[3] / "shared" / "hub"
RELATIVES = {  # vendor and architecture, as drivers report them
    "A100": ("NVIDIA", "sm_80"), "A4000": ("NVIDIA", "sm_86"), "A6000": ("NVIDIA", "sm_86"),
    "MI250X": ("AMD", "gfx90a"), "W6600": ("AMD", "gfx1032"), "W7800": ("AMD", "gfx1100"),
}  # fmt: skip
FLOOR = 0.3
"""Efficiencies below are all alike: hopeless."""
CONSIDERED = 500
"""Configs that the model looks at: the best by its mean."""
SAME_VENDOR, SAME_ARCHITECTURE = 8.0, 11.0
WEIGHTS, TASTE, SWITCHES, LOCAL = 0.1, 0.6, 0.6, 0.3
"""Standard deviations, in log efficiency, of what a new GPU may differ by."""


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


def first_choice(hub: Hub, new: int) -> int:
    """The config for a GPU nobody has measured on."""
    others = [g for g in range(len(hub.gpus)) if g != new]
    kin = [g for g in others if _architecture(hub, g) == _architecture(hub, new)] or others
    return int(np.argmin((1 / np.maximum(hub.efficiency[kin], 1e-3)).sum(axis=0)))


def search(hub: Hub, new: int, budget: int) -> list[int]:
    """The configs measured on a new GPU, in order; the first is `first_choice`."""
    others = [g for g in range(len(hub.gpus)) if g != new]
    known = np.log(np.maximum(hub.efficiency[others], FLOOR))
    weight = np.array([_weight(hub, g, new) for g in others])
    mean = weight @ known / weight.sum()
    first = first_choice(hub, new)
    kept = np.union1d(np.argsort(-mean)[:CONSIDERED], [first])
    mean, covariance = mean[kept], _covariance(hub, kept, known[:, kept])
    seen = [int(np.flatnonzero(kept == first)[0])]
    times = hub.times[new, kept]
    while len(seen) < budget:
        bound = _upper_bound(mean, covariance, seen, times[seen])
        bound[seen] = -np.inf
        seen.append(int(bound.argmax()))
    return [int(kept[i]) for i in seen]


def _architecture(hub: Hub, gpu: int) -> str:
    return RELATIVES[hub.gpus[gpu]][1]


def _weight(hub: Hub, gpu: int, new: int) -> float:
    (vendor, architecture), other = RELATIVES[hub.gpus[gpu]], RELATIVES[hub.gpus[new]]
    if architecture == other[1]:
        return SAME_ARCHITECTURE
    return SAME_VENDOR if vendor == other[0] else 1.0


def _covariance(hub: Hub, kept: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Of the new GPU's log efficiency between configs, around the mean."""
    switch = [hub.configs[:, i].max() <= 1 for i in range(hub.configs.shape[1])]
    place = np.where(switch, 2 * hub.configs, np.log2(np.maximum(hub.configs, 1)))[kept]
    place = place - place.mean(axis=0)
    moving = [i for i in range(place.shape[1]) if np.ptp(place[:, i]) > 0]
    centred = known - known.mean(axis=1, keepdims=True)
    level = 4.0  # the new GPU's best time is unknown
    taste = sum(_like(place[:, [i]], 0.7) for i in moving) / len(moving)
    switches = _like(place[:, [i for i in moving if switch[i]]], 0.5)
    local = _like(place[:, moving], 1.0)
    return (
        level
        + WEIGHTS**2 * centred.T @ centred
        + TASTE**2 * taste
        + SWITCHES**2 * switches
        + LOCAL**2 * local
    )


def _like(place: np.ndarray, scale: float) -> np.ndarray:
    squared = (((place[:, None] - place[None]) / scale) ** 2).sum(axis=-1)
    return np.exp(-squared / 2)


def _upper_bound(mean, covariance, seen: list[int], times: np.ndarray) -> np.ndarray:
    """Mean plus one standard deviation of log(1 / time), given what was measured."""
    ran = np.isfinite(times)
    best = float(-np.log(times[ran].min())) if ran.any() else 0.0
    value = np.where(ran, np.maximum(-np.log(times), best + np.log(FLOOR)), best + np.log(FLOOR))
    own = covariance[np.ix_(seen, seen)] + 1e-3 * np.eye(len(seen))
    cross = covariance[:, seen]
    solved = np.linalg.solve(own, np.column_stack([value - mean[seen], cross.T]))
    variance = np.diag(covariance) - np.einsum("ij,ji->i", cross, solved[:, 1:])
    return mean + cross @ solved[:, 0] + np.sqrt(np.maximum(variance, 1e-9))


def harmonic_mean(values) -> float:
    """n / sum(1 / v)."""
    values = np.asarray(values, float)
    return len(values) / float((1 / values).sum())


def reached(hub: Hub, budget: int) -> list[float]:
    """Efficiency of the best config found on each GPU left out; budget 1: unmeasured choice."""
    efficiency = hub.efficiency
    return [float(efficiency[new, search(hub, new, budget)].max()) for new in range(len(hub.gpus))]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--budgets", type=int, nargs="*", default=[1, 20, 40])
    wish = parser.parse_args()
    hub = load(wish.folder)
    print("budget", *hub.gpus, "harmonic mean")
    for budget in wish.budgets:
        row = reached(hub, budget)
        print(budget, *(f"{e:.3f}" for e in row), f"{harmonic_mean(row):.4f}")


if __name__ == "__main__":
    main()
