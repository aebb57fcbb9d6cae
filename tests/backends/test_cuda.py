"""The CUDA backend without a GPU: reasons, devices from recorded properties, CuPy arrays on made-up
memory, and what CuPy is handed at a launch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types

import numpy as np
import pytest

from portable import dtypes
from portable.backends import cuda
from portable.backends.cuda import backend
from portable.device import Device, DeviceInfo
from portable.errors import CompileError, FamilyError

has_cupy = importlib.util.find_spec("cupy") is not None
needs_cupy = pytest.mark.skipif(not has_cupy, reason="CuPy is not installed: [cuda13]")


def without_device():
    return backend.why_missing() is not None


def test_absent_cupy_is_a_reason_with_the_line_that_brings_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    missing = backend.why_missing()
    assert missing.reason == "cupy is not installed"
    assert "portable-kernels[cuda13]" in missing.install
    assert "[cuda12]" in missing.install
    assert "driver" not in backend.versions()


@needs_cupy
def test_no_driver_gives_the_loaders_words_and_does_not_import_cupy(monkeypatch):
    monkeypatch.setitem(cuda._DRIVERS, sys.platform, ("libno-such-driver.so.1",))
    monkeypatch.setattr(cuda, "_runtime_words", lambda: pytest.fail("must not be asked"))
    missing = backend.why_missing()
    assert missing.reason.startswith("cupy is installed but sees no CUDA device: ")
    assert "libno-such-driver.so.1" in missing.reason


@needs_cupy
@pytest.mark.parametrize("words", ["cudaErrorInsufficientDriver: too old", None])
def test_a_driver_without_device_gives_the_runtimes_words(monkeypatch, words):
    monkeypatch.setattr(cuda, "_driver_words", lambda: None)
    monkeypatch.setattr(cuda, "_runtime_words", lambda: words)
    missing = backend.why_missing()
    assert missing is None if words is None else words in missing.reason


def test_a_broken_cupy_is_a_reason_not_a_crash(monkeypatch):
    def broken(name):
        raise ImportError("libcudart.so.13: not found")

    monkeypatch.setattr(cuda.importlib, "import_module", broken)
    assert cuda._runtime_words() == "ImportError: libcudart.so.13: not found"


def test_a_runtime_that_counts_no_device(monkeypatch):
    runtime = types.SimpleNamespace(getDeviceCount=lambda: 0)
    fake = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(cuda.importlib, "import_module", lambda name: fake)
    assert cuda._runtime_words() == "the driver reports 0 devices"


def test_asking_is_cheap():
    """In a child process: the answer comes without CuPy where no driver library is."""
    code = (
        "import sys; from portable.backends.cuda import backend, _driver_words\n"
        "backend.why_missing()\n"
        "assert _driver_words() is None or 'cupy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class FakeRuntime:
    """Properties as CUDA 13 reports them: the clock is an attribute only."""

    is_hip = False

    def __init__(self, **properties):
        self.properties = {
            "name": b"NVIDIA H200", "major": 9, "minor": 0, "multiProcessorCount": 132,
            "totalGlobalMem": 150_000_000_000, "l2CacheSize": 62_914_560, "warpSize": 32,
            "sharedMemPerBlock": 49152, "sharedMemPerBlockOptin": 232448,
        } | properties  # fmt: skip

    def getDeviceProperties(self, index):
        return self.properties

    def deviceGetAttribute(self, number, index):
        assert number == 13
        return 1_980_000

    def driverGetVersion(self):
        return 13020


def test_device_info_of_an_nvidia_device():
    info = cuda._info(FakeRuntime(), 0)
    assert info.name == "NVIDIA H200"
    assert info.architecture == "sm_90"
    assert (info.units, info.clock, info.driver) == (132, 1.98e9, "13.2")
    assert info.caches == {"l2": 62_914_560}
    assert info.extra == {"warp_size": "32", "shared_per_block": "232448"}


def test_device_info_of_an_amd_device():
    runtime = FakeRuntime(
        name=b"AMD Instinct MI300X", gcnArchName=b"gfx942:sramecc+:xnack-", warpSize=64,
        clockRate=2_100_000, sharedMemPerBlock=65536, sharedMemPerBlockOptin=0,
    )  # fmt: skip
    runtime.is_hip = True
    info = cuda._info(runtime, 0)
    assert (info.vendor, info.architecture, info.clock) == ("AMD", "gfx942", 2.1e9)
    assert info.extra == {"warp_size": "64", "shared_per_block": "65536"}


def test_targets_take_the_drivers_limits_before_the_table():
    from portable.backends.cuda._targets import of_device, target

    assert target("sm_90a").shared == 227 << 10
    assert target("sm_103").capability == 103
    assert target("gfx1100").warp == 32
    assert target("gfx942").warp == 64
    told = of_device(Device("cuda:0", cuda._info(FakeRuntime(), 0)))
    assert (told.arch, told.shared, told.units) == ("sm_90", 232448, 132)


# ---- arrays: CuPy objects over host memory, which need no driver --------------------------------


def fake_array(shape, dtype, strides=None):
    import cupy

    memory = np.zeros(1 << 16, np.uint8)
    block = cupy.cuda.UnownedMemory(memory.ctypes.data, memory.nbytes, memory, 0)
    return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(block, 0), strides)


@needs_cupy
@pytest.mark.parametrize("name", [*dtypes.FLOATS, "float8_e4m3fn", "int8", "int64", "bool"])
def test_spec_of_cupy_arrays(name):
    family = backend.array_families()[0]
    array = fake_array((4, 6), dtypes.numpy_dtype(name))
    assert family.spec(array).dtype == name
    assert family.spec(array).strides is None
    assert family.spec(array.T).strides == (1, 6)
    assert family.spec(array[::-1, ::2]).strides == (-6, 2)
    assert family.device(array) == "cuda:0"
    assert family.key(array) == family.key(fake_array((4, 6), dtypes.numpy_dtype(name)))
    assert family.key(array) != family.key(array.T)
    assert family.constraints(array) == frozenset()
    assert family.normalize(array) is None
    assert family.why_copy(family.spec(array))


@needs_cupy
def test_strides_between_elements_are_refused_with_the_fix():
    family = backend.array_families()[0]
    with pytest.raises(FamilyError, match="ascontiguousarray"):
        family.spec(fake_array((4, 2), np.float32, (10, 4)))


# ---- launches ------------------------------------------------------------------------------------


class FakeFunction:
    def __init__(self):
        self.calls, self.max_dynamic_shared_size_bytes = [], 0

    def __call__(self, grid, block, args, shared_mem):
        self.calls.append((grid, block, args, shared_mem))


@pytest.fixture
def launches(monkeypatch):
    """CuPy's compiler and device replaced: what they are asked for is noted."""
    import contextlib

    import cupy

    made = []

    class FakeModule:
        def __init__(self, code, options):
            self.code, self.options, self.function = code, options, FakeFunction()
            made.append(self)

        def get_function(self, name):
            self.name = name
            return self.function

    monkeypatch.setattr(cupy, "RawModule", FakeModule)
    monkeypatch.setattr(cupy.cuda, "Device", lambda index: contextlib.nullcontext())
    monkeypatch.setattr(cupy, "empty", fake_array)
    return made


@needs_cupy
def test_a_launch_hands_cupy_pointers_and_64_bit_numbers(launches):
    from portable import cases
    from portable.backends.cuda import rms_norm
    from portable.backends.cuda._plan import guarded
    from portable.backends.cuda._runtime import CupyRuntime
    from portable.ops.rms_norm import OP

    device = Device("cuda:0", DeviceInfo("x", architecture="sm_80", units=108))
    x = np.zeros((4, 128), np.float32)
    problem = cases.problem_of(OP, [x], {"eps": 1e-6})
    config = rms_norm.configs(problem, device)[0]
    kernel = guarded(rms_norm.build, problem, config, CupyRuntime(device))
    out = kernel(fake_array((4, 128), np.float32))
    assert out.shape == (4, 128)
    (module,) = launches
    assert module.name == "norm_rows"
    assert "--std=c++17" in module.options
    assert "#define ARCH 800" in module.code
    (grid, block, args, shared) = module.function.calls[0]
    assert (grid, block, shared) == ((1, 1, 1), (128, 1, 1), 0)
    kinds = [type(a).__name__ for a in args]
    assert kinds == ["ndarray"] * 6 + ["int64"] * 3 + ["float64"]


@needs_cupy
def test_large_shared_memory_is_asked_for_and_kernels_are_kept(launches):
    from portable.backends.cuda._runtime import CupyRuntime, Pointer

    runtime = CupyRuntime(Device("cuda:0", DeviceInfo("x", architecture="sm_80")))
    launch = runtime.kernel("transpose.cu", "copy_strided", {"T": "u32"}, 256, 100_000)
    assert runtime.kernel("transpose.cu", "copy_strided", {"T": "u32"}, 256, 100_000) is launch
    assert len(launches) == 1
    assert launches[0].function.max_dynamic_shared_size_bytes == 100_000
    launch((1, 1, 1), Pointer(4096), 3, 0.5)
    args = launches[0].function.calls[0][2]
    assert [type(a).__name__ for a in args] == ["uint64", "int64", "float64"]


@needs_cupy
@pytest.mark.parametrize("count", [1, 2])
def test_with_several_devices_a_kernel_makes_its_own_current(launches, monkeypatch, count):
    import contextlib

    import cupy

    from portable.backends.cuda._runtime import CupyRuntime

    entered = []

    def device(index):
        entered.append(index)
        return contextlib.nullcontext()

    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: count)
    runtime = CupyRuntime(Device("cuda:1", DeviceInfo("x", architecture="sm_80")))
    monkeypatch.setattr(cupy.cuda, "Device", device)
    assert runtime.on_device(lambda x: x + 1)(1) == 2
    assert entered == [1] * (count - 1)


@needs_cupy
def test_a_failed_build_carries_source_and_log(launches, monkeypatch):
    import cupy

    from portable.backends.cuda._runtime import CupyRuntime

    def broken(code, options):
        raise cupy.cuda.compiler.CompileException("error: bad", code, "k", options)

    monkeypatch.setattr(cupy, "RawModule", broken)
    runtime = CupyRuntime(Device("cuda:0", DeviceInfo("x", architecture="sm_80")))
    with pytest.raises(CompileError) as caught:
        runtime.kernel("transpose.cu", "copy_strided", {"T": "u32"}, 256)
    assert "copy_strided" in caught.value.source


def test_torch_stream_without_torch_is_the_default(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert backend.torch_stream(Device("cuda:0", DeviceInfo("x"))) == 0


@needs_cupy
def test_on_stream_makes_the_callers_stream_current(monkeypatch):
    import contextlib

    import cupy

    seen = []

    def stream(handle, index):
        seen.append((handle, index))
        return contextlib.nullcontext()

    monkeypatch.setattr(cupy.cuda, "Device", lambda index: contextlib.nullcontext())
    monkeypatch.setattr(cupy.cuda, "ExternalStream", stream)
    with backend.on_stream(Device("cuda:1", DeviceInfo("x")), 1234):
        assert seen == [(1234, 1)]


def test_torch_arrays_run_on_torchs_stream_and_others_on_cupys(monkeypatch):
    import contextlib

    seen = []

    @contextlib.contextmanager
    def on_stream(device, handle):
        seen.append((device.id, handle))
        yield

    device = Device("cuda:1", DeviceInfo("x"))
    monkeypatch.setattr(backend, "on_stream", on_stream)
    monkeypatch.setattr(backend, "torch_stream", lambda device: 77)
    for family, expected in (("torch", [("cuda:1", 77)]), ("jax", []), ("cupy", [])):
        seen.clear()
        with backend.on_stream_of(family, device):
            assert seen == expected


@pytest.mark.skipif(without_device(), reason=f"no GPU: {backend.why_missing()}")
def test_on_a_device_matmul_runs():
    import cupy

    import portable

    a = cupy.random.rand(128, 64).astype("float16")
    with portable.using(backend="cuda"):
        out = portable.matmul(a, a.T)
    np.testing.assert_allclose(out.get(), a.get().astype("f4") @ a.get().T.astype("f4"), rtol=2e-3)
