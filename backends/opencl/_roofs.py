"""What an OpenCL device can do at best, measured: FMA rate, memory bandwidth, launch latency.

Each function returns samples; a roof is their maximum, the spread tells how busy the machine was.
All compute units work at once. A full set takes a few seconds.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from portable.backends.opencl import _build, _memory, _runtime
from portable.backends.opencl._plan import is_cpu, vector_width
from portable.device import Device
from portable.errors import DTypeError

STREAMS = ("read", "write", "copy", "triad")
_TAGS = {"float32": "F32", "float64": "F64"}


def _program(device: Device, dtype: str) -> Any:
    if dtype == "float16":
        if not is_cpu(device) and "cl_khr_fp16" in device.info.features:
            options = ("-DNATIVE_F16", "-DVW=2")
            return _build.program(_runtime.context(device), ("roofs.cl",), options)
        raise DTypeError(
            f"float16 has no arithmetic of its own measured on {device.info.name}: half types are "
            "widened to float32"
        )
    if dtype not in _TAGS:
        raise DTypeError(f"no FMA kernel for {dtype} (takes float32, float64)")
    options = (f"-DDT_{_TAGS[dtype]}", f"-DVW={vector_width(device, dtype)}")
    return _build.program(_runtime.context(device), ("roofs.cl",), options)


def compute_roof(device: Device, dtype: str, samples: int = 9) -> list[float]:
    """FLOP/s of independent fused multiply-adds in registers on all compute units.

    Args:
        device: an OpenCL device.
        dtype: "float32", "float64", or "float16" on GPUs that have it.
        samples: how many.

    Raises:
        DTypeError: the device has no arithmetic in the dtype.
    """
    cl = _runtime.load()
    program, queue = _program(device, dtype), _runtime.queue(device)
    cpu = is_cpu(device)
    width = 2 if dtype == "float16" else vector_width(device, dtype)
    local = 1 if cpu else 128
    grid = device.info.units * (1 if cpu else 16) * local
    chains = 16
    out = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size=max(64, grid * width * 8))
    kernel = cl.Kernel(program, "fma_chains")
    rounds = 1 << 16 if cpu else 1 << 12
    rates: list[float] = []
    while len(rates) < samples + 1:
        kernel.set_args(out, np.int32(rounds))
        start = time.perf_counter()
        cl.enqueue_nd_range_kernel(queue, kernel, (grid,), (local,)).wait()
        elapsed = time.perf_counter() - start
        if elapsed < 0.02 and not rates:
            rounds *= 2  # long enough that the launch does not count
            continue
        rates.append(2.0 * chains * width * rounds * grid / elapsed)
    return rates[1:]


def stream(device: Device, kind: str, nbytes: int, samples: int = 9) -> list[float]:
    """B/s of a stream over arrays of `nbytes` each: read, write, copy (a = b), triad (a = b + s c).

    Bytes are those of the arrays: what a cache line costs when it is fetched before it is
    overwritten is not counted.
    """
    if kind not in STREAMS:
        raise ValueError(f"stream {kind!r}; known: {', '.join(STREAMS)}")
    cl = _runtime.load()
    program, queue = _program(device, "float32"), _runtime.queue(device)
    cpu, width = is_cpu(device), vector_width(device, "float32")
    count = nbytes // 4 // (width * 4) * (width * 4)
    local = 1 if cpu else 128
    grid = device.info.units * (4 if cpu else 32) * local
    arrays = [_array(queue, count) for _ in range({"read": 1, "write": 1, "copy": 2}.get(kind, 3))]
    out = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size=grid * width * 4)
    kernel = cl.Kernel(program, f"stream_{kind}")
    for i, argument in enumerate([*arrays, out]):
        kernel.set_arg(i, argument)
    kernel.set_arg(len(arrays) + 1, np.int64(count))
    moved = count * 4 * len(arrays)
    rates = []
    for _ in range(samples + 2):
        start = time.perf_counter()
        cl.enqueue_nd_range_kernel(queue, kernel, (grid,), (local,)).wait()
        rates.append(moved / (time.perf_counter() - start))
    return rates[2:]


def _array(queue: Any, count: int) -> Any:
    """Host memory that the kernel sees as it is, or device memory; filled with ones."""
    cl = _runtime.load()
    if _runtime.host_mode(queue.device) == "svm":
        block = _memory.empty((count,), np.dtype(np.float32), count * 4)
        block.fill(1)
        return cl.SVM(block)
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
