"""Which config to measure next: a Gaussian process around what other devices and shapes suggest.

The model is of log speed (-log time). Its mean is what evidence expects of each config; what this
device and shape differ by is a level, the weight that the evidence deserves, a taste per parameter,
per pair of parameters and per combination of switches, and a local remainder. Every measurement
updates all of them. Two regimes are kept, evidence that transfers well and evidence that does not;
the likelihood of what was measured weighs them, so a surprising device is searched more widely.
The next config is the one with the largest expected improvement. No model knows what it cannot
see: after PATIENCE measurements without gain every other one is drawn at random from the better
quarter of what evidence expects.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from portable.backend import Config

FLOOR = 0.3
"""Configs slower than the best by more than this factor are all alike: hopeless."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations, in log speed, of what a new device or shape may differ by.

    Chosen on recorded timings of six GPUs; how, and how well they do, is in docs/selection.md.

    Attributes:
        level: of all configs together.
        trust: of the factor on the expected differences between configs, around one.
        taste, pair, switches, local: per parameter, pair of parameters, combination of
            two-valued parameters, and config.
        reach: distance in parameter space (factors of two) within which configs are alike.
        noise: of a measurement.
    """

    level: float = 2.0
    trust: float = 0.1
    taste: float = 0.3
    pair: float = 0.3
    switches: float = 0.3
    local: float = 0.2
    reach: float = 0.7
    noise: float = 0.03

    def scaled(self, factor: float) -> Spread:
        """The same for a device that differs by this factor more."""
        return replace(
            self,
            trust=self.trust * factor,
            taste=self.taste * factor,
            pair=self.pair * factor,
            switches=self.switches * factor,
            local=self.local * factor,
        )


PATIENCE = 8
"""Measurements without a gain of GAINED after which every other one is drawn at random."""
GAINED = 0.01

SURPRISE = 3.0
"""How much more a device differs where evidence transfers badly."""


class Search:
    """A search for the fastest config.

    Args:
        configs: all configs.
        expected: expected time of each, in any unit; all alike where nothing is known.
        spread: how far this device may differ from what is expected.
        surprise: see SURPRISE; 1 keeps a single regime.
        seed: of what is drawn at random.
    """

    def __init__(
        self,
        configs: Sequence[Config],
        expected: Sequence[float],
        spread: Spread | None = None,
        surprise: float = SURPRISE,
        seed: int = 0,
    ) -> None:
        import numpy as np

        if not configs or len(configs) != len(expected):
            raise ValueError(
                f"{len(configs)} configs and {len(expected)} expected times are given "
                "(as many of both, and at least one, are needed)"
            )
        self.configs = list(configs)
        speed = -np.log(np.asarray(expected, float))
        self._mean = np.maximum(speed, speed.max() + math.log(FLOOR))
        self._centred = self._mean - self._mean.mean()
        self._places = _places(configs)
        own = spread or Spread()
        self._reach = own.reach
        factors = (1.0,) if surprise == 1.0 else (1.0, surprise)
        self._regimes = [_Regime(own.scaled(f), self._places, self._centred) for f in factors]
        self.measured: dict[int, float] = {}
        """Time by index of the config; infinite where it failed."""
        self._random = random.Random(seed)
        self._promising = np.argsort(-self._mean, kind="stable")[: -(-len(configs) // 4)].tolist()
        self._best, self._since = math.inf, 0

    def add(self, index: int, time: float) -> None:
        """A config was measured: its time, infinite when it failed."""
        gained = time < self._best * (1 - GAINED)
        self._best, self._since = min(time, self._best), 0 if gained else self._since + 1
        if index in self.measured:
            self.measured[index] = min(time, self.measured[index])
        else:
            self._see(index, time)

    def _see(self, index: int, time: float) -> None:
        self.measured[index] = time
        alike = self._places.alike(index, self._reach)
        for regime in self._regimes:
            regime.add(alike, index)

    def propose(self, count: int = 1) -> list[int]:
        """Configs to measure next, the most promising first; fewer where few are left.

        Several are chosen as if the earlier ones turned out as the model expects.
        """
        found: list[int] = []
        while len(found) < count and len(self.measured) < self._places.count:
            index, believed = self._next(self._since + len(found))
            found.append(index)
            self._see(index, believed)
        for index in found:  # beliefs are no measurements
            del self.measured[index]
            for regime in self._regimes:
                regime.columns.pop()
        return found

    def gain(self) -> float:
        """Largest expected improvement of a config not yet measured, as a share of the time."""
        if len(self.measured) == self._places.count:
            return 0.0
        return float(self._improvement()[0].max())

    def _next(self, since: int) -> tuple[int, float]:
        """A config, and the time expected of it, after so many measurements without a gain."""
        if not self.measured:
            index = int(self._mean.argmax())
            return index, math.exp(-float(self._mean[index]))
        improvement, speed = self._improvement()
        index = int(improvement.argmax())
        if since >= PATIENCE and (since - PATIENCE) % 2 == 0:
            left = [i for i in self._promising if i not in self.measured]
            index = self._random.choice(left) if left else index
        return index, math.exp(-float(speed[index]))

    def _improvement(self) -> tuple[Any, Any]:
        """Expected improvement of log speed over the best, and expected log speed, per config."""
        import numpy as np

        seen = list(self.measured)
        values, best = self._values(seen)
        found = [r.posterior(self._mean, seen, values) for r in self._regimes]
        likelihood = np.array([f[2] for f in found])
        weights = np.exp(likelihood - likelihood.max())
        weights /= weights.sum()
        improvement = np.zeros(self._places.count)
        speed = np.zeros(self._places.count)
        for weight, (mean, deviation, _) in zip(weights, found, strict=True):
            improvement += weight * _expected_improvement(mean - best, deviation)
            speed += weight * mean
        improvement[seen] = -1.0
        return improvement, speed

    def _values(self, seen: list[int]) -> tuple[Any, float]:
        """Log speeds as the model sees them, and the best of them."""
        import numpy as np

        times = np.array([self.measured[i] for i in seen])
        if not np.isfinite(times).any():
            best = float(self._mean[seen].min())
            return np.full(len(seen), best + math.log(FLOOR)), best
        best = float(-np.log(times.min()))
        return np.maximum(-np.log(times), best + math.log(FLOOR)), best


class _Regime:
    """One prior of the difference to what is expected, with the covariances of what was seen."""

    def __init__(self, spread: Spread, places: _Places, centred: Any) -> None:
        self.spread, self._places, self._centred = spread, places, centred
        self.columns: list[Any] = []  # in the order of what was seen
        s = spread
        own = s.level**2 + s.taste**2 + s.local**2
        own += s.pair**2 if places.parameters > 1 else 0.0
        own += s.switches**2 if places.switches else 0.0
        self._diagonal = own + s.trust**2 * centred**2

    def add(self, alike: Any, index: int) -> None:
        """Covariance of every config with one more that was measured; see `_Places.alike`."""
        s, places = self.spread, self._places
        column = s.level**2 + s.trust**2 * self._centred * self._centred[index]
        total, squares, product = alike.sum(0), (alike**2).sum(0), alike.prod(0)
        number = max(places.parameters, 1)
        column = column + s.taste**2 * total / number + s.local**2 * product
        pairs = number * (number - 1) / 2
        if pairs:
            column = column + s.pair**2 * (total**2 - squares) / 2 / pairs
        if places.switches:
            column = column + s.switches**2 * alike[places.switches].prod(0)
        self.columns.append(column)

    def posterior(self, mean: Any, seen: list[int], values: Any) -> tuple[Any, Any, float]:
        """Mean and standard deviation per config given the values, and their log likelihood."""
        import numpy as np

        columns = np.array(self.columns)
        own = columns[:, seen] + self.spread.noise**2 * np.eye(len(seen))
        root = np.linalg.cholesky(own)
        solved = np.linalg.solve(root, np.column_stack([values - mean[seen], columns]))
        residual, reach = solved[:, 0], solved[:, 1:]
        variance = np.maximum(self._diagonal - (reach**2).sum(0), 1e-9)
        likelihood = -float(np.log(np.diag(root)).sum()) - float(residual @ residual) / 2
        return mean + reach.T @ residual, np.sqrt(variance), likelihood


class _Places:
    """Configs as points: numbers by their logarithm, everything else by name."""

    def __init__(self, columns: list[Any], switches: list[int], count: int) -> None:
        self.columns, self.switches, self.count = columns, switches, count
        self.parameters = len(columns)

    def alike(self, index: int, reach: float) -> Any:
        """Likeness, 0 to 1, of every config with one, per parameter."""
        import numpy as np

        squared = [(c - c[index]) ** 2 for c in self.columns]
        return np.array([np.exp(-s / (2 * reach**2)) for s in squared]).reshape(-1, self.count)


APART = 1e3
"""Distance of names that are not equal: nothing alike."""


def _places(configs: Sequence[Config]) -> _Places:
    """Parameters that differ between configs, and which of them have two values only."""
    import numpy as np

    names = sorted({name for config in configs for name in config})
    columns: list[Any] = []
    switches: list[int] = []
    for name in names:
        values = [config.get(name) for config in configs]
        different = sorted({repr(v) for v in values})
        if len(different) < 2:
            continue
        named = {text: APART * i for i, text in enumerate(different)}
        if len(different) > 2 and all(_is_number(v) for v in values):
            column = [_number_place(v) for v in values]
        else:
            column = [named[repr(v)] for v in values]
            if len(different) == 2:
                switches.append(len(columns))
        columns.append(np.array(column))
    return _Places(columns, switches, len(configs))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number_place(value: Any) -> float:
    """Powers of two are one apart; zero and below follow one."""
    return math.log2(value) if value >= 1 else float(value) - 1.0


def _expected_improvement(lead: Any, deviation: Any) -> Any:
    """E[max(x, 0)] of x normal with mean `lead`."""
    import numpy as np

    z = lead / deviation
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    above = np.fromiter((math.erfc(-v / math.sqrt(2)) / 2 for v in z.tolist()), float, len(z))
    return deviation * np.maximum(z * above + density, 0.0)


def transferred(rows: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """Expected time per config, in units of the best, from times on other devices.

    Args:
        rows: times of all configs per device; infinite where one does not run.
        weights: how near each device is to the new one.
    """
    import numpy as np

    times = np.asarray(rows, float)
    efficiency = np.maximum(times.min(axis=1, keepdims=True) / times, FLOOR)
    share = np.asarray(weights, float) / sum(weights)
    return [float(t) for t in np.exp(-(share @ np.log(efficiency)))]


__all__ = ["Search", "Spread", "transferred"]
