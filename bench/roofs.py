"""The calibrated roofs against independent C: FMA rate and STREAM triad, interleaved in one run.

    python -m bench.roofs        (needs gcc or g++, and an OpenCL CPU runtime)

Accepted: the FMA roof within 5 % of the C micro-kernel, the triad within 10 % of C STREAM.

Both libraries keep threads that spin for a while after a call, on the cores of the other one. So
before each side is timed there is a pause, and one call that is not timed. (Not by
`portable.measure`: our FMA rate is what the code under test reports, not a call that can be timed.)
"""

from __future__ import annotations

import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from portable import machine, registry

ROUNDS = 15
N = (256 << 20) // 4
PAUSE = 0.02
"""Seconds after which the threads of either side are asleep."""


def main() -> None:
    """Print both figures and their ratio, by runtime."""
    compiler = shutil.which("gcc") or shutil.which("g++")
    if compiler is None:
        sys.exit("needs gcc: apt install gcc")
    threads = machine.device("cpu").info.units or os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        library = built(compiler, Path(folder))
        a, b, c = (np.ones(N, np.float32) for _ in range(3))
        for device in registry.backend("opencl").devices():
            if device.id == "cpu":
                compare(library, device, threads, (a, b, c))


def built(compiler: str, folder: Path) -> ctypes.CDLL:
    """The C file as a shared library for this very processor."""
    out = folder / "roofs.so"
    source = Path(__file__).with_name("roofs.c")
    flags = ["-x", "c", "-O3", "-march=native", "-mprefer-vector-width=512", "-fopenmp", "-shared",
             "-fPIC", "-ffp-contract=fast"]  # fmt: skip
    subprocess.run([compiler, *flags, "-o", str(out), str(source)], check=True)
    library = ctypes.CDLL(str(out))
    library.fma_rounds.restype = ctypes.c_float
    library.fma_rounds.argtypes = [ctypes.c_long, ctypes.c_int]
    library.triad.argtypes = [*[ctypes.c_void_p] * 3, ctypes.c_size_t, ctypes.c_int]
    return library


def compare(library: ctypes.CDLL, device, threads: int, arrays) -> None:
    """Alternate ours and C; medians, best samples and ratios."""
    roofs = registry.backend("opencl").roofs
    ours = {"fma": [], "triad": []}
    theirs = {"fma": [], "triad": []}
    pointers = [x.ctypes.data for x in arrays]
    triad = roofs.stream_call(device, "triad", N * 4)
    for _ in range(ROUNDS):
        time.sleep(PAUSE)
        ours["fma"].append(statistics.median(roofs.compute_roof(device, "float32", samples=9)))
        time.sleep(PAUSE)
        theirs["fma"].append(fma_rate(library, threads))
        ours["triad"].append(triad_rate(triad))
        theirs["triad"].append(triad_rate(lambda: library.triad(*pointers, N, threads)))
    for name, unit in (("fma", "GFLOP/s"), ("triad", "GB/s")):
        mine, c = ours[name], theirs[name]
        print(
            f"{device.runtime:6} {name:6} ours {statistics.median(mine) / 1e9:7.1f} (best "
            f"{max(mine) / 1e9:.1f})  C {statistics.median(c) / 1e9:7.1f} (best "
            f"{max(c) / 1e9:.1f}) {unit}  best/best {max(mine) / max(c):.3f}  "
            f"median/median {statistics.median(mine) / statistics.median(c):.3f}"
        )


def triad_rate(call) -> float:
    """B/s of the second of two passes after a pause."""
    time.sleep(PAUSE)
    call()
    start = time.perf_counter()
    call()
    return 12.0 * N / (time.perf_counter() - start)


def fma_rate(library: ctypes.CDLL, threads: int) -> float:
    """FLOP/s of the C micro-kernel over about 40 ms, after a short call."""
    rounds = 10_000_000
    library.fma_rounds(rounds // 10, threads)
    start = time.perf_counter()
    library.fma_rounds(rounds, threads)
    return 2.0 * 16 * 12 * rounds * threads / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
