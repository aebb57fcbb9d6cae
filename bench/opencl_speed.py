r"""Our OpenCL kernels on this CPU against NumPy, torch, JAX and CLBlast, on the same arrays.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE \
        python -m bench.opencl_speed [section ...]

Sections: square, layers, half, gemv, decode, rows, attention, roofs. Candidates are interleaved in
one process and reported by the median; results lie in host memory. Where the machine does other
work at the same time, not even the ratios mean much (a call of one thread waits for one core, a
call of all threads for all): every section prints the load average, and --cpu counts CPU seconds of
the process in place of the clock's, per core. Peers that spin while they wait must then have one
thread:

    env OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 XLA_FLAGS=--xla_cpu_multi_thread_eigen=false \
        python -m bench.opencl_speed --cpu
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from portable import cases, dtypes, registry
from portable.op import Problem

Calls = dict[str, Callable[[], Any]]
BACKEND = registry.backend("opencl")
DEVICES = [d for d in BACKEND.devices() if d.id == "cpu"]
RNG = np.random.default_rng(0)
ROUNDS, BURST, PAUSE = 5, 0.06, 0.04
"""Bursts of each candidate, seconds of a burst, and of the pause before it."""
BEYOND_CACHES = 1 << 28
"""Bytes of the pass that gives the roof of memory."""
clock = time.perf_counter

# Facts from the published workloads: (name, m, n, k) of layers x @ w.T, scaled to a CPU.
LAYERS = [
    ("bert qkv", 384, 2304, 768), ("bert out", 384, 768, 768), ("bert up", 384, 3072, 768),
    ("bert down", 384, 768, 3072), ("bert b8 qkv", 3072, 2304, 768),
    ("llama qkv", 203, 6144, 4096), ("llama out", 203, 4096, 4096),
    ("llama down", 203, 4096, 14336), ("llama qkv 706", 706, 4864, 3200),
    ("llama gate_up", 352, 11392, 1664),
]  # fmt: skip
GEMV = [  # name, n, k, weights stored (n, k)
    ("4096", 4096, 4096, False), ("4096 w.T", 4096, 4096, True),
    ("llama qkv w.T", 6144, 4096, True), ("llama qkv", 6144, 4096, False),
    ("llama gate_up w.T", 28672, 4096, True), ("llama gate_up", 28672, 4096, False),
    ("llama down w.T", 4096, 14336, True), ("llama down", 4096, 14336, False),
    ("llama lm_head w.T", 64128, 2048, True),
]  # fmt: skip
DECODE = [
    ("llama out 11", 11, 4096, 4096), ("llama qkv 20", 20, 6144, 4096),
    ("llama gate_up 11", 11, 28672, 4096), ("llama down 11", 11, 4096, 14336),
]  # fmt: skip
HALF = [(1024, 1024, 1024, False), (384, 3072, 768, True), (203, 4096, 4096, True)]
ATTENTION = [  # batch, heads, kv heads, queries, keys, head_dim, causal
    ("bert", 1, 12, 12, 384, 384, 64, False), ("bert b8", 8, 12, 12, 384, 384, 64, False),
    ("llama prefill", 1, 32, 8, 396, 396, 128, True),
    ("llama prefill 706", 1, 24, 6, 706, 706, 128, True),
    ("llama decode", 1, 32, 8, 1, 1658, 128, True),
    ("llama decode b4", 4, 32, 8, 1, 5191, 128, True),
]  # fmt: skip


def array(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Normal values."""
    return RNG.standard_normal(shape, np.float32).astype(dtypes.numpy_dtype(dtype))


def ours(op: str, operands: dict[str, Any], params: dict[str, Any] | None = None) -> Calls:
    """One call per runtime, with the first config."""
    problem: Problem = cases.problem_of(registry.op(op), operands, params or {})
    implementation = BACKEND.implementation(op)
    assert implementation is not None
    calls: Calls = {}
    for device in DEVICES:
        kernel = implementation.compile(problem, device, implementation.configs(problem, device)[0])
        calls[device.runtime] = lambda k=kernel: k(*operands.values())
    return calls


def torch_of(x: np.ndarray[Any, Any]) -> Any:
    """A torch tensor over the same memory."""
    import torch

    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def jax_call(function: Callable[..., Any], *operands: Any) -> Callable[[], Any]:
    """A jitted call that waits for its result."""
    import jax

    compiled = jax.jit(function)
    given = [jax.numpy.asarray(x) for x in operands]
    return lambda: compiled(*given).block_until_ready()


def medians(calls: Calls) -> dict[str, float]:
    """Rounds of short bursts of each candidate, in turn: median seconds of each.

    Threads of a library spin for a while after its call, on the other core too: so there is a pause
    between candidates until they sleep, and a first call of each burst, which wakes its own
    threads and is not counted.

    Not `portable.measure`, which asks who is fastest: it ends when that is known, and those far
    behind rest after a few samples. Here each has the same time, for calls in a loop.
    """
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(ROUNDS):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            time.sleep(PAUSE)
            call = calls[name]
            call()
            until, enough = time.perf_counter() + BURST, len(times[name]) + 2
            while time.perf_counter() < until or len(times[name]) < enough:
                before = clock()
                call()
                times[name].append(clock() - before)
    return {name: statistics.median(t) for name, t in times.items()}


Row = tuple[str, float, str, Calls, float]
"""Name, work, unit of work per second / 1e9, candidates, floating-point operations."""


def matmul_calls(a: Any, b: Any, numpy_too: bool = True) -> Calls:
    """Everyone's product of the same two arrays."""
    import torch

    calls = ours("matmul", {"a": a, "b": b})
    if numpy_too:
        calls["numpy"] = lambda: a @ b
    ta, tb = torch_of(a), torch_of(b.T).T if b.strides[0] == b.itemsize else torch_of(b)
    calls["torch"] = lambda: torch.matmul(ta, tb)
    if b.strides[0] == b.itemsize:
        calls["jax"] = jax_call(lambda x, w: x @ w.T, a, b.T)
    else:
        calls["jax"] = jax_call(lambda x, w: x @ w, a, b)
    return calls


def square() -> Iterator[Row]:
    """f32 squares, CLBlast included."""
    for n in (512, 768, 1024, 1536, 2048):
        a, b = array((n, n)), array((n, n))
        calls = matmul_calls(a, b)
        if (clblast := clblast_call(a, b)) is not None and n <= 1024:
            calls["clblast"] = clblast
        yield f"f32 {n}^3", 2.0 * n**3, "GFLOP/s", calls, 2.0 * n**3


def layers() -> Iterator[Row]:
    """f32 prefill layers, weights stored (n, k)."""
    for name, m, n, k in LAYERS:
        a, w = array((m, k)), array((n, k))
        flops = 2.0 * m * n * k
        yield f"f32 {name} {m}x{n}x{k}", flops, "GFLOP/s", matmul_calls(a, w.T), flops


def half() -> Iterator[Row]:
    """Our f16 and bf16 against our own f32, JAX beside it."""
    for m, n, k, transposed in HALF:
        calls: Calls = {}
        for dtype in ("float32", "bfloat16", "float16"):
            a = array((m, k), dtype)
            b = array((n, k), dtype).T if transposed else array((k, n), dtype)
            short = dtypes.short(dtype)
            for name, call in ours("matmul", {"a": a, "b": b}).items():
                calls[f"{name} {short}"] = call
            if dtype != "float32":
                jb = b.T if transposed else b
                product = (lambda x, w: x @ w.T) if transposed else (lambda x, w: x @ w)
                calls[f"jax {short}"] = jax_call(product, a, jb)
        flops = 2.0 * m * n * k
        yield f"{m}x{n}x{k}{' w.T' if transposed else ''}", flops, "GFLOP/s", calls, flops


def gemv() -> Iterator[Row]:
    """One row: bytes of the weights per second."""
    for dtype in ("float32", "bfloat16"):
        for name, n, k, transposed in GEMV:
            yield streamed(f"{name} 1x{n}x{k}", 1, n, k, transposed, dtype)


def decode() -> Iterator[Row]:
    """Some rows, weights stored (n, k): bytes of the weights per second."""
    for dtype in ("float32", "bfloat16"):
        for name, m, n, k in DECODE:
            yield streamed(name, m, n, k, True, dtype)


def streamed(name: str, m: int, n: int, k: int, transposed: bool, dtype: str) -> Row:
    """Everyone's product, beside the read roof of the weights' size and that of memory."""
    a = array((m, k), dtype)
    b = array((n, k), dtype).T if transposed else array((k, n), dtype)
    calls = matmul_calls(a, b, numpy_too=dtype == "float32")
    if dtype == "bfloat16" and m * n * k > 2e7:
        calls.pop("torch")  # seconds a call on CPUs without its fast path
    if dtype == "bfloat16" and n * k > 2e7:
        calls.pop("jax")
    calls |= stream_roofs("read", b.nbytes) | stream_roofs("memory", BEYOND_CACHES)
    return f"{dtypes.short(dtype)} {name}", float(b.nbytes), "GB/s", calls, 2.0 * m * n * k


def stream_roofs(kind: str, nbytes: int) -> Calls:
    """A pass of a stream kernel over `nbytes` in all, on each runtime, as further candidates;
    "memory": a read."""
    arrays = {"read": 1, "memory": 1, "copy": 2}[kind]
    make = BACKEND.roofs.stream_call
    moving = "read" if kind == "memory" else kind
    return {f"{kind} roof {d.runtime}": make(d, moving, nbytes // arrays) for d in DEVICES}


def rows() -> Iterator[Row]:
    """Row-wise and element-wise ops beyond the cache: compulsory bytes per second."""
    import jax
    import torch
    import torch.nn.functional as F

    x = array((4096, 4096))
    g = array((4096,))
    t, tg = torch_of(x), torch_of(g)

    def row(
        name: str,
        op: str,
        operands: Any,
        params: Any,
        moved: float,
        torch_: Any,
        jax_: Any,
        numpy_: Any = None,
    ) -> Row:
        calls = ours(op, operands, params)
        if numpy_ is not None:
            calls["numpy"] = numpy_
        if torch_ is not None:
            calls["torch"] = torch_
        calls["jax"] = jax_call(jax_, *operands.values())
        reads_only = moved < 1.5 * x.nbytes
        calls |= stream_roofs("read" if reads_only else "copy", int(moved))
        return f"f32 {name}", moved, "GB/s", calls, 0.0

    n, jnn = 2.0 * x.nbytes, jax.nn
    yield row("softmax", "softmax", {"x": x}, {"axis": -1}, n,
              lambda: torch.softmax(t, -1), lambda v: jnn.softmax(v, -1))  # fmt: skip
    yield row("layer_norm", "layer_norm", {"x": x, "weight": g, "bias": g}, {}, n,
              lambda: F.layer_norm(t, (4096,), tg, tg),
              _jax_layer_norm)  # fmt: skip
    yield row("rms_norm", "rms_norm", {"x": x, "weight": g}, {}, n,
              lambda: F.rms_norm(t, (4096,), tg),
              _jax_rms_norm)  # fmt: skip
    up = array((4096, 4096))
    tu = torch_of(up)
    yield row("swiglu", "swiglu", {"gate": x, "up": up}, {}, 1.5 * n,
              lambda: F.silu(t) * tu, lambda a, b: jnn.silu(a) * b)  # fmt: skip
    yield row(
        "gelu", "gelu", {"x": x}, {}, n, lambda: F.gelu(t), lambda v: jnn.gelu(v, approximate=False)
    )
    h = array((1, 32, 4096, 128))
    angle = array((4096, 64))
    tables = {"cos": np.cos(angle), "sin": np.sin(angle)}
    yield row("rope", "rope", {"x": h, **tables}, {}, 2.0 * h.nbytes,
              _torch_rope(h, angle), _jax_rope)  # fmt: skip
    yield row("sum rows", "sum", {"x": x}, {"axis": 1}, n / 2,
              lambda: t.sum(1), lambda v: v.sum(1), lambda: x.sum(1))  # fmt: skip
    yield row("sum columns", "sum", {"x": x}, {"axis": 0}, n / 2,
              lambda: t.sum(0), lambda v: v.sum(0), lambda: x.sum(0))  # fmt: skip
    yield row("max rows", "max", {"x": x}, {"axis": 1}, n / 2,
              lambda: t.amax(1), lambda v: v.max(1), lambda: x.max(1))  # fmt: skip
    yield row("argmax", "argmax", {"x": x}, {"axis": 1}, n / 2, lambda: t.argmax(1),
              lambda v: v.argmax(1), lambda: x.argmax(1))  # fmt: skip


def _jax_layer_norm(v: Any, w: Any, b: Any) -> Any:
    import jax

    spread = jax.lax.rsqrt(v.var(-1, keepdims=True) + 1e-5)
    return (v - v.mean(-1, keepdims=True)) * spread * w + b


def _jax_rms_norm(v: Any, w: Any) -> Any:
    import jax

    return v * jax.lax.rsqrt((v * v).mean(-1, keepdims=True) + 1e-6) * w


def _torch_rope(h: Any, angle: Any) -> Callable[[], Any]:
    import torch

    x, c, s = torch_of(h), torch_of(np.cos(angle)), torch_of(np.sin(angle))

    def call() -> Any:
        a, b = x[..., :64], x[..., 64:]
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    return call


def _jax_rope(x: Any, c: Any, s: Any) -> Any:
    import jax.numpy as jnp

    a, b = x[..., :64], x[..., 64:]
    return jnp.concatenate((a * c - b * s, b * c + a * s), -1)


def attention() -> Iterator[Row]:
    """Prefill and decode against torch's and JAX's CPU paths."""
    import jax
    import torch
    import torch.nn.functional as F

    for name, b, h, hk, s, t, d, causal in ATTENTION:
        for dtype in ("float32", "bfloat16"):
            q, k, v = (
                array((b, h, s, d), dtype),
                array((b, hk, t, d), dtype),
                array((b, hk, t, d), dtype),
            )
            calls = ours("attention", {"q": q, "k": k, "v": v}, {"causal": causal})
            tq, tk, tv = map(torch_of, (q, k, v))
            lower = causal and s > 1
            with torch.no_grad():
                calls["torch"] = lambda a=tq, c=tk, e=tv, m=lower: F.scaled_dot_product_attention(
                    a, c, e, is_causal=m, enable_gqa=True
                )
            swapped = [x.swapaxes(1, 2) for x in (q, k, v)]
            calls["jax"] = jax_call(
                lambda a, c, e, m=lower: jax.nn.dot_product_attention(a, c, e, is_causal=m),
                *swapped,
            )
            work = 4.0 * b * h * s * t * d * (0.5 if lower else 1.0)
            yield f"{dtypes.short(dtype)} {name}", work, "GFLOP/s", calls, work


def clblast_call(a: Any, b: Any) -> Callable[[], Any] | None:
    """CLBlastSgemm (Debian libclblast1) on the first runtime, buffers on the device; or None."""
    try:
        library = ctypes.CDLL("libclblast.so.1")
    except OSError:
        return None
    import pyopencl as cl

    from portable.backends.opencl import _runtime

    queue = _runtime.queue(DEVICES[0])
    # Its kernels read vectors from where a buffer starts: aligned by the runtime, unlike NumPy's.
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    (m, k), n = a.shape, b.shape[1]
    out = np.empty((m, n), np.float32)
    buffers = [cl.Buffer(queue.context, flags, hostbuf=x) for x in (a, b, out)]
    handle = ctypes.c_void_p(queue.int_ptr)
    size, pointer, one = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_float

    def call() -> None:
        x, y, z = (pointer(buffer.int_ptr) for buffer in buffers)  # holds the buffers, too
        status = library.CLBlastSgemm(
            101, 111, 111, size(m), size(n), size(k), one(1.0), x, size(0), size(k), y, size(0),
            size(n), one(0.0), z, size(0), size(n), ctypes.byref(handle), None,
        )  # fmt: skip
        assert status == 0, status
        queue.finish()

    return call


SECTIONS: dict[str, Callable[[], Iterator[Row]]] = {
    "square": square, "layers": layers, "half": half, "gemv": gemv, "decode": decode,
    "rows": rows, "attention": attention,
}  # fmt: skip


def roofs() -> None:
    """The micro-kernels of each runtime."""
    for device in DEVICES:
        fma = {d: max(BACKEND.roofs.compute_roof(device, d)) / 1e9 for d in ("float32", "float64")}
        line = ", ".join(f"{d} FMA {rate:.0f} GFLOP/s" for d, rate in fma.items())
        for kind in ("read", "copy", "triad"):
            line += f", {kind} {max(BACKEND.roofs.stream(device, kind, 1 << 27)) / 1e9:.1f} GB/s"
        latency = statistics.median(BACKEND.roofs.launch_latency(device)) * 1e6
        print(f"{device.runtime}: {line}, launch {latency:.1f} us")


def show(name: str) -> None:
    """Print a section, and the geometric mean of the better runtime over the best of the others."""
    print(f"\n{name} (load average {os.getloadavg()[0]:.1f})")
    names = {d.runtime for d in DEVICES}
    ratios: dict[str, list[float]] = {}
    fma = max(max(BACKEND.roofs.compute_roof(d, "float32")) for d in DEVICES)
    for label, work, unit, calls, flops in SECTIONS[name]():
        times = medians(calls)
        times |= {n: t * work / BEYOND_CACHES for n, t in times.items() if "memory" in n}
        shown = "  ".join(f"{n} {work / t / 1e9:.1f}" for n, t in times.items())
        print(f"  {label:28} {unit:8} {shown}", flush=True)
        best = min(t for n, t in times.items() if n.split()[0] in names)
        memory = [t for n, t in times.items() if "memory" in n]
        roofs_ = [t for n, t in times.items() if "roof" in n and "memory" not in n]
        peers = [t for n, t in times.items() if n in ("numpy", "torch", "jax")]
        against = {
            "best of NumPy/torch/JAX": peers,
            "stream roof": roofs_,
            "stream roof of memory": memory,
            "stream or FMA roof": [max(min(roofs_), flops / fma)] if roofs_ else [],
            "CLBlast": [t for n, t in times.items() if n == "clblast"],
        }
        for key, rest in against.items():
            if rest:
                ratios.setdefault(key, []).append(min(rest) / best)
        if name == "attention":  # half types: torch's may use matrix units that OpenCL cannot reach
            key = f"best of NumPy/torch/JAX, {label.split()[0]}"
            ratios.setdefault(key, []).append(min(peers) / best)
        if name == "half":
            for runtime in names:
                for short in ("bf16", "f16"):
                    ratio = times[f"{runtime} f32"] / times[f"{runtime} {short}"]
                    ratios.setdefault(f"{runtime} f32, by {short}", []).append(ratio)
    for key, values in ratios.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"  = {mean:.2f} x {key} (geometric mean of {len(values)}; worst {min(values):.2f})")


def main() -> None:
    """Run the sections named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, "roofs", []])
    parser.add_argument("--cpu", action="store_true", help="CPU seconds, not the clock's")
    arguments = parser.parse_args()
    chosen = arguments.sections or ["roofs", *SECTIONS]
    if arguments.cpu:
        global clock
        clock = time.process_time
        print("per core: CPU seconds of all threads")
    for name in chosen:
        roofs() if name == "roofs" else show(name)


if __name__ == "__main__":
    main()
