"""The OpenCL backend: results on every runtime, arrays, threads, forks, drivers, memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from portable import cases, registry
from portable.backend import Missing
from portable.op import TensorSpec
from tests.backends.opencl_cases import failures

BACKEND = registry.backend("opencl")
MISSING = BACKEND.why_missing()
DEVICES = [] if MISSING else [d for d in BACKEND.devices() if d.id == "cpu"]
pytestmark = pytest.mark.skipif(
    not DEVICES, reason=f"no OpenCL CPU device: {MISSING.reason if MISSING else 'no driver'}"
)
ROOT = Path(__file__).parents[2]
# Kernels of these take about a second each to compile where no cache has them.
HEAVY = {
    "matmul": 0.06,
    "linear": 0.04,
    "quantized_matmul": 0.04,
    "conv2d": 0.03,
    "attention": 0.02,
}


def runtimes():
    return pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.runtime)


def kernel(name, device, params=None, **operands):
    """The kernel of the first config for these arrays."""
    op = registry.op(name)
    problem = cases.problem_of(op, operands, params or {})
    implementation = BACKEND.implementation(name)
    assert not implementation.why_not(problem, device)
    return implementation.compile(problem, device, implementation.configs(problem, device)[0])


@runtimes()
@pytest.mark.parametrize("name", registry.op_names())
def test_results_are_within_bounds(name, device):
    count, refused, wrong = failures(name, device, HEAVY.get(name, 0.15))
    assert count > 3
    assert not wrong, "\n".join(wrong[:5])
    assert refused < count


@runtimes()
@pytest.mark.parametrize("name", ["matmul", "conv2d", "attention", "softmax", "linear"])
def test_every_config_is_right(name, device):
    count, _, wrong = failures(name, device, 0.02, most_configs=99)
    assert count > 1
    assert not wrong, "\n".join(wrong[:5])


@runtimes()
@pytest.mark.parametrize(
    "name", ["softmax", "log_softmax", "layer_norm", "add_rms_norm", "gelu", "swiglu", "rope"]
)
def test_results_past_the_caches(name, device, monkeypatch):
    """What is done for tensors beyond the caches is right on small ones, too."""
    from portable.backends.opencl import _plan

    monkeypatch.setattr(_plan, "STREAM_FROM", 0)
    count, _, wrong = failures(name, device, 0.1)
    assert count > 1
    assert not wrong, "\n".join(wrong[:5])


@runtimes()
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 300, 77), (1, 5003, 211), (11, 257, 130), (20, 70, 64), (200, 2, 50)]
)
def test_products_with_few_rows(device, m, n, k, transposed, dtype):
    """The streaming kernels and the packed one agree with float64."""
    from portable import dtypes

    rng, dtype = np.random.default_rng(0), dtypes.numpy_dtype(dtype)
    a = rng.standard_normal((m, k)).astype(dtype)
    b = rng.standard_normal((n, k) if transposed else (k, n)).astype(dtype)
    b = b.T if transposed else b
    op, implementation = registry.op("matmul"), BACKEND.implementation("matmul")
    problem = cases.problem_of(op, {"a": a, "b": b}, {})
    configs = implementation.configs(problem, device)
    assert configs[0]["kind"].startswith(("skinny", "gemv")) or (m, transposed) == (20, False)
    from portable import check

    for config in configs:
        y = implementation.compile(problem, device, config)(a, b)
        assert not check.check(op, problem, [a, b], y)


@runtimes()
def test_pyopencl_arrays_stay_on_their_queue(device):
    """Operands with views and offsets; the result is theirs in family, context and queue."""
    from portable.backends.opencl import _runtime

    cl = _runtime.load()
    family = BACKEND.array_families()[0]
    queue = cl.CommandQueue(_runtime.context(device))
    host = np.random.default_rng(1).standard_normal((40, 33)).astype(np.float32)
    whole = cl.array.to_device(queue, host)
    x = whole[3:30]
    spec = family.spec(x)
    assert spec == TensorSpec((27, 33), "float32")
    assert family.device(x) == "cpu"
    op = registry.op("softmax")
    problem = op.bind({"x": spec}, {"axis": -1})
    implementation = BACKEND.implementation("softmax")
    run = implementation.compile(problem, device, implementation.configs(problem, device)[0])
    y = run(x)
    assert isinstance(y, cl.array.Array)
    assert y.queue is queue
    e = np.exp(host[3:30].astype(np.float64))
    np.testing.assert_allclose(y.get(), e / e.sum(1, keepdims=True), rtol=2e-6)
    # the same kernel then takes host arrays again: offsets of the earlier call are gone
    np.testing.assert_array_equal(run(host[:27].copy()), run(host[:27].copy()))
    np.testing.assert_allclose(run(host[3:30].copy()), y.get(), rtol=1e-6)


@runtimes()
def test_host_memory_is_shared_with_pyopencl_arrays(device):
    family = BACKEND.array_families()[0]
    host = np.arange(64, dtype=np.float32)
    array = family.from_host(host, "cpu")
    np.testing.assert_array_equal(family.to_host(array), host)
    view = family.to_host(array)
    assert view.ctypes.data == host.ctypes.data
    frozen = np.arange(8.0)
    frozen.flags.writeable = False
    np.testing.assert_array_equal(family.to_host(family.from_host(frozen, "cpu")), frozen)


@runtimes()
def test_buffers_give_the_same_bits_as_shared_memory(device, monkeypatch):
    """Devices without SVM see host arrays through buffers, views and negative strides included."""
    from portable.backends.opencl import _runtime

    rng = np.random.default_rng(2)
    x = rng.standard_normal((50, 70)).astype(np.float32)[::-1, 3:40]
    w = rng.standard_normal((37, 20)).astype(np.float32)
    shared = kernel("linear", device, x=x, w=w)(x, w)
    for mode in ("mapped", "copied"):
        monkeypatch.setattr(_runtime, "host_mode", lambda d, mode=mode: mode)
        np.testing.assert_array_equal(kernel("linear", device, x=x, w=w)(x, w), shared)


@pytest.mark.parametrize(
    ("name", "operands", "params"),
    [
        ("softmax", {"x": ((2, 4), "float32")}, {"axis": -1}),
        ("sum", {"x": ((2, 4), "float64")}, {"axis": (1,)}),
        ("transpose", {"x": ((2, 4), "int32")}, {"axes": (1, 0)}),
        ("embedding", {"table": ((2, 4), "float32"), "indices": ((3,), "int64")}, {}),
        ("matmul", {"a": ((2, 4), "float32"), "b": ((4, 3), "float32")}, {}),
    ],
)
def test_tensors_that_no_buffer_holds_are_refused(name, operands, params):
    """A view that reaches further than one buffer, where host memory is seen through buffers."""
    implementation = BACKEND.implementation(name)
    device = DEVICES[0]
    extra = {k: v for k, v in device.info.extra.items() if k != "max_buffer"}
    shared = replace(device, info=replace(device.info, extra=extra))
    limited = replace(device, info=replace(device.info, extra={**extra, "max_buffer": "4096"}))
    specs = {n: TensorSpec(shape, dtype) for n, (shape, dtype) in operands.items()}
    assert not implementation.why_not(registry.op(name).bind(specs, params), limited)
    first = next(iter(specs))
    shape, dtype = operands[first]
    far = {**specs, first: TensorSpec(shape, dtype, (1 << 12, 1))}
    problem = registry.op(name).bind(far, params)
    assert not implementation.why_not(problem, shared)
    (reason,) = implementation.why_not(problem, limited)
    assert reason == f"{first} spans {(4096 + 4) * specs[first].itemsize} bytes (takes 4096 in " \
                     "one buffer)"  # fmt: skip


def test_a_driver_without_shared_memory_says_what_a_buffer_holds():
    from portable.backends.opencl import _runtime

    for device in DEVICES:
        limited = "max_buffer" in device.info.extra
        assert limited == (_runtime.host_mode(_runtime.native(device)) != "svm")


@runtimes()
def test_many_threads_share_a_kernel(device):
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal((64, 200)).astype(np.float32) for _ in range(16)]
    run = kernel("softmax", device, {"axis": -1}, x=inputs[0])
    expected = [run(x) for x in inputs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for y, want in zip(pool.map(run, inputs), expected, strict=True):
                np.testing.assert_array_equal(y, want)


@runtimes()
def test_results_are_never_shared_and_memory_is_reused(device):
    """A block serves again only when every array over it is gone."""
    x = np.ones((512, 512), np.float32)
    run = kernel("softmax", device, {"axis": -1}, x=x)
    first = run(x)
    view = first[5:]
    address = first.ctypes.data
    assert address % 64 == 0
    second = run(x)
    assert not np.shares_memory(first, second)
    del first, second
    gc.collect()
    third = run(x)  # `view` still holds the first block
    assert not np.shares_memory(view, third)
    del view, third
    gc.collect()
    assert address in {y.ctypes.data for y in [run(x), run(x), run(x)]}


def test_inputs_may_be_read_only():
    x = np.ones((8, 8), np.float32)
    x.flags.writeable = False
    np.testing.assert_allclose(kernel("softmax", DEVICES[0], {"axis": -1}, x=x)(x), 1 / 8)


def test_a_source_that_does_not_build_raises_with_log_and_source():
    from portable.backends.opencl import _build, _runtime
    from portable.errors import CompileError

    with pytest.raises(CompileError) as caught:
        _build.program(_runtime.context(DEVICES[0]), ("softmax.cl",), ("-DVW=3",))
    assert "softmax_rows" in caught.value.source
    assert caught.value.log


def python(code, **env):
    """Runs code in a child; returns its stdout."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, cwd=ROOT,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_a_users_loader_setting_is_left_alone(tmp_path):
    code = (
        "import os; from portable.backends.opencl import backend; n = len(backend.devices());"
        "print(os.environ['OCL_ICD_VENDORS'], n)"
    )
    assert python(code, OCL_ICD_VENDORS=str(tmp_path)) == f"{tmp_path} 0"


def test_packaged_drivers_are_found_without_a_setting():
    from portable.backends.opencl import _runtime

    expected = {"intel" for name in _runtime.packaged_drivers() if name.startswith("intel")}
    code = (
        "from portable.backends.opencl import backend;"
        "print(*sorted(d.runtime for d in backend.devices()))"
    )
    env = dict.fromkeys(_runtime.USER_SETTINGS, "")
    assert expected <= set(python(code, **env).split())


def test_a_forked_child_is_told_to_spawn():
    code = """
import os, sys, warnings
warnings.simplefilter("ignore")
from portable.backends.opencl import backend
assert backend.devices()
child = os.fork()
if child == 0:
    missing = backend.why_missing()
    os._exit(0 if missing and "spawn" in missing.reason and not backend.devices() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert python(code) == "0"


def test_why_missing_names_the_install_line(monkeypatch):
    from portable.backends.opencl import _runtime

    monkeypatch.setattr(_runtime, "icd_files", lambda: [])
    assert BACKEND.why_missing() == Missing(
        "no OpenCL driver (ICD) is installed", "pip install 'portable-kernels[opencl-cpu]'"
    )


def test_roofs_are_plausible():
    """A kernel cannot beat the roof, and the roof is a rate of this decade."""
    device, roofs = DEVICES[0], BACKEND.roofs
    fma = max(roofs.compute_roof(device, "float32", samples=5))
    assert 1e9 < fma < 1e15
    assert roofs.compute_roof(device, "bfloat16") == []
    assert 1e8 < max(roofs.stream(device, "triad", 1 << 24, samples=3)) < 1e13
    assert 0 < np.median(roofs.launch_latency(device, samples=11)) < 1


def test_results_of_an_empty_axis():
    x = np.empty((3, 0), np.float32)
    np.testing.assert_array_equal(kernel("sum", DEVICES[0], {"axis": 1}, x=x)(x), np.zeros(3))
    a, b = np.empty((3, 0), np.float32), np.empty((0, 2), np.float32)
    np.testing.assert_array_equal(kernel("matmul", DEVICES[0], a=a, b=b)(a, b), np.zeros((3, 2)))


def test_builds_side_by_side_are_quiet_until_the_last_one_is_done():
    import warnings

    from portable.backends.opencl import _build, _runtime

    kind, quietly = _runtime.load().CompilerWarning, _build._Quietly()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        quietly.__enter__()
        with quietly:
            pass
        warnings.warn("a log", kind, stacklevel=1)
        quietly.__exit__(None, None, None)
        assert not heard
        warnings.warn("somebody else's", kind, stacklevel=1)
        assert len(heard) == 1
