"""Each stage slowed on purpose in a real, fake backend: the right step grows, and only that one."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from portable import contest, machine, registry, report
from portable.backend import API_VERSION
from portable.device import Device, DeviceInfo
from portable.op import TensorSpec
from portable.report.attribution import STEPS
from tests.report import made

NUMBERS = itertools.count()  # a name is never used twice: much is remembered by name
SLOW = 20e-3
PROBLEM = made.problem("softmax", x=(8, 64))


class Wrapped:
    """An array of the fake backend's own family."""

    def __init__(self, array):
        self.array = array


class Family:
    """Converts to and from NumPy, by a copy that can be slowed."""

    name = "wrapped"
    types = ("tests.Wrapped",)

    def __init__(self, delays):
        self.delays = delays

    def key(self, array):
        return id(array)

    def spec(self, array):
        return TensorSpec(array.array.shape, "float32")

    def device(self, array):
        return "cpu"

    def constraints(self, array):
        return frozenset()

    def normalize(self, array):
        return None

    def why_copy(self, spec):
        return "it is a test"

    def to_host(self, array):
        return array.array.copy()

    def from_host(self, array, device):
        time.sleep(self.delays["copies"])
        return Wrapped(array.copy())

    def from_dlpack(self, array):
        raise NotImplementedError("the route under test is by host copies")


class Softmax:
    """Right, and as slow as asked: in the launch of any call, or in proportion to the work."""

    def __init__(self, delays):
        self.delays = delays

    def why_not(self, problem, device):
        return []

    def configs(self, problem, device):
        return [{}]

    def compile(self, problem, device, config):
        def kernel(x):
            time.sleep(self.delays["launch"])
            if problem.tensors[0].shape == PROBLEM.tensors[0].shape:
                time.sleep(self.delays["kernel"])
            axis = problem.param("axis")
            powers = np.exp(x.array.astype("f8") - x.array.max(axis, keepdims=True))
            return Wrapped((powers / powers.sum(axis, keepdims=True)).astype(x.array.dtype))

        return kernel


class Fake:
    path = "dsl"
    api_version = API_VERSION
    priority = 0
    families = ("wrapped",)

    def __init__(self, name, delays):
        self.name = name
        self.softmax, self.family = Softmax(delays), Family(delays)

    def why_missing(self):
        return None

    def devices(self):
        return [Device("cpu", DeviceInfo("test", kind="cpu", units=1))]

    def versions(self):
        return {}

    def ops(self):
        return ["softmax"]

    def implementation(self, op):
        return self.softmax if op == "softmax" else None

    def array_families(self):
        return [self.family]

    def synchronize(self, device):
        pass


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Steps of one contest of a fresh fake backend with these delays."""
    names = []

    def measure(**delays):
        name = f"fake{next(NUMBERS)}"
        names.append(name)
        registry.register(Fake(name, {"launch": 0.0, "copies": 0.0, "kernel": 0.0, **delays}))
        machine.forget()
        found = contest.contest(PROBLEM, backends=[name], budget=0.3, stages=True)
        (record,) = [r for r in found.records if r.backend == name]
        assert record.ok, record.reason
        (row,) = report.build([record]).rows
        assert sum(s.time for s in row.steps) == pytest.approx(row.time, rel=1e-9)
        return {s.name: s.time for s in row.steps}, {s.name: s.how for s in row.steps}

    yield measure
    for name in names:
        registry.unregister(name)
    machine.forget()


@pytest.mark.parametrize("stage", ["launch", "copies", "kernel"])
def test_the_slowed_stage_grows(measured, stage):
    before, hows = measured()
    assert {hows[n] for n in ("kernel", "copies", "launch")} == {"measured"}
    after, _ = measured(**{stage: SLOW})
    growth = {name: after[name] - before[name] for name in STEPS}
    assert growth[stage] > 0.8 * SLOW
    others = [abs(v) for name, v in growth.items() if name != stage]
    assert max(others) < 0.5 * SLOW


def test_an_inflated_peak_grows_the_ceiling_and_shrinks_the_speed_of_light():
    """The same record under a hardware entry whose bandwidth is wrong by a factor of a thousand."""
    from dataclasses import replace

    from portable.report import places

    record = made.record(made.matmul(1, 4096, 4096), time=5e-3, details={"kernel_time": 4.9e-3})
    (honest,) = report.build([record]).rows
    spec = honest.place.spec
    wrong = replace(
        spec, bandwidth=spec.bandwidth * 1000, peaks={k: v * 1000 for k, v in spec.peaks.items()}
    )
    original, places.spec_seen = places.spec_seen, lambda *_: wrong
    try:
        (inflated,) = report.build([record]).rows
    finally:
        places.spec_seen = original
    before, after = ({s.name: s.time for s in r.steps} for r in (honest, inflated))
    assert after["speed of light"] == pytest.approx(before["speed of light"] / 1000)
    assert after["ceiling"] == pytest.approx(
        before["ceiling"] + before["speed of light"] * 0.999, rel=1e-6
    )
    assert after["kernel"] == pytest.approx(before["kernel"])
