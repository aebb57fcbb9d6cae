"""What an OpenCL device can do at best, measured: FMA rate, memory bandwidth, launch latency.

Each function returns samples; a roof is their maximum, the spread tells how busy the machine was.
All compute units work at once. A full set takes a few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from portable.backends.opencl import _build, _memory, _runtime
from portable.backends.opencl._plan import is_cpu, local_size, vector_width, why_not_double
from portable.device import Device
from portable.errors import UnknownNameError

STREAMS = ("read", "write", "copy", "triad")
_ARRAYS = {"read": 1, "read_apart": 1, "write": 1, "copy": 2, "triad": 3}
_TAGS = {"float32": "F32", "float64": "F64"}
_CHAINS = 16  # as in roofs.cl
_SAMPLE = 4e-3
"""Seconds one sample of the FMA kernel takes at least."""
_MOVED = 1 << 26
"""Bytes one sample of a stream moves at least: small arrays are passed over several times."""
_UNTIMED = 2
_SHARES = 8
"""Groups per core of a CPU for the FMA kernel: with one each, a thread that wakes late or loses
its core holds up the whole launch."""
_fresh = _memory.Pool(0)
"""Gives host memory that nobody keeps afterwards."""


def _program(device: Device, dtype: str) -> Any:
    """The kernels in one arithmetic, or None where the device has none."""
    if dtype == "float16":
        # CPU devices compute in float32 whatever they say of cl_khr_fp16: so do our kernels.
        if is_cpu(device) or "cl_khr_fp16" not in device.info.features:
            return None
        options: tuple[str, ...] = ("-DNATIVE_F16", "-DVW=2")
    elif dtype == "float32" or (dtype == "float64" and not why_not_double(device)):
        options = (f"-DDT_{_TAGS[dtype]}", f"-DVW={vector_width(device, dtype)}")
    else:
        return None
    return _build.program(_runtime.context(device), ("roofs.cl",), options)


def compute_roof(device: Device, dtype: str, samples: int = 25) -> list[float]:
    """FLOP/s of independent fused multiply-adds in registers on all compute units.

    Args:
        device: an OpenCL device.
        dtype: float32, float64, or float16 on GPUs that have it; empty for every other.
        samples: how many; each takes a few milliseconds, so that some run undisturbed.
    """
    program = _program(device, dtype)
    if program is None:
        return []
    cl, queue, cpu = _runtime.load(), _runtime.queue(device), is_cpu(device)
    width = 2 if dtype == "float16" else vector_width(device, dtype)
    local = 1 if cpu else local_size(device)
    grid = max(device.info.units, 1) * (_SHARES if cpu else 16) * local
    out = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size=max(64, grid * width * 8))
    kernel = cl.Kernel(program, "fma_chains")
    rounds, rates = 1 << 12, list[float]()

    def call() -> None:
        kernel.set_args(out, np.int32(rounds))
        cl.enqueue_nd_range_kernel(queue, kernel, (grid,), (local,)).wait()

    _settle(call)
    while len(rates) < samples:
        start = time.perf_counter()
        call()
        elapsed = time.perf_counter() - start
        if elapsed < _SAMPLE and rounds < 1 << 28:
            rounds *= 2  # long enough that the launch does not count
            rates.clear()
        else:
            rates.append(2.0 * _CHAINS * width * rounds * grid / elapsed)
    return rates


def stream(device: Device, kind: str, nbytes: int, samples: int = 7) -> list[float]:
    """B/s of a stream over arrays of `nbytes` each: read, write, copy (a = b), triad (a = b + s c).

    Bytes are those of the arrays: what a cache line costs when it is fetched before it is
    overwritten is not counted. Reads of a CPU are measured in the faster of one and eight streams
    a core: on a Xeon eight gave 1.5 times the rate of one.
    """
    ways = [_rates(*_stream(device, way, nbytes, _MOVED), samples) for way in _ways(device, kind)]
    return max(ways, key=max)


def _ways(device: Device, kind: str) -> list[str]:
    """Kernels that stream so."""
    return ["read", "read_apart"] if kind == "read" and is_cpu(device) else [kind]


def _rates(call: Callable[[], None], moved: int, passes: int, samples: int) -> list[float]:
    _settle(call)
    rates = []
    for _ in range(samples):
        start = time.perf_counter()
        call()
        rates.append(moved * passes / (time.perf_counter() - start))
    return rates


def _settle(call: Callable[[], None]) -> None:
    """Calls that are not timed: the first builds the kernel, and pages and threads come in."""
    for _ in range(_UNTIMED):
        call()


def stream_call(device: Device, kind: str, nbytes: int) -> Callable[[], None]:
    """One pass of a stream over arrays of `nbytes` each, to be interleaved with what it bounds."""
    made = [_stream(device, way, nbytes, 0) for way in _ways(device, kind)]
    if len(made) == 1:
        return made[0][0]
    return max(made, key=lambda way: max(_rates(way[0], way[1], way[2], 5)))[0]


def _stream(
    device: Device, kind: str, nbytes: int, least: int
) -> tuple[Callable[[], None], int, int]:
    """The call, the bytes of one pass, and how many passes it makes to move `least` bytes."""
    if kind not in _ARRAYS:
        raise UnknownNameError("stream", kind, STREAMS)
    cl = _runtime.load()
    program, queue = _program(device, "float32"), _runtime.queue(device)
    cpu, width = is_cpu(device), vector_width(device, "float32")
    count = nbytes // 4 // (width * 4) * (width * 4)
    local = 1 if cpu else local_size(device)
    # A cache is measured by one item a core, which comes back to the same data.
    per_unit = 32 if not cpu else 1 if nbytes < _MOVED else 4
    grid = max(device.info.units, 1) * per_unit * local
    arrays = [_array(queue, count) for _ in range(_ARRAYS[kind])]
    out = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size=grid * width * 4)
    kernel = cl.Kernel(program, f"stream_{kind}")
    moved = count * 4 * len(arrays)
    passes = max(1, least // max(moved, 1))
    kernel.set_args(*arrays, out, np.int64(count), np.int32(passes))

    def call() -> None:
        cl.enqueue_nd_range_kernel(queue, kernel, (grid,), (local,)).wait()

    # A kernel does not hold its arguments: they live as long as the call does.
    call.arguments = (*arrays, out)  # type: ignore[attr-defined]
    return call, moved, passes


def _array(queue: Any, count: int) -> Any:
    """The memory that calls on the device work in, filled with ones: where kernels see the
    host's, an array as NumPy makes it (in large pages where the system has them), not the driver's
    own, which may lie in small ones and stream at half the rate."""
    cl = _runtime.load()
    mode = _runtime.host_mode(queue.device)
    if mode != "copied":
        block = _fresh.take(count * 4).view(np.float32)
        block.fill(1)
        if mode == "svm":
            return cl.SVM(block)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        return cl.Buffer(queue.context, flags, hostbuf=block)
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size=count * 4)
    cl.enqueue_fill_buffer(queue, buffer, np.float32(1), 0, count * 4)
    return buffer


def launch_latency(device: Device, samples: int = 101) -> list[float]:
    """Seconds from enqueueing an empty kernel to knowing that it has run."""
    cl = _runtime.load()
    kernel, queue = cl.Kernel(_program(device, "float32"), "nothing"), _runtime.queue(device)
    times = []
    for _ in range(samples + 5):
        start = time.perf_counter()
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,)).wait()
        times.append(time.perf_counter() - start)
    return times[5:]
