"""Cost of the hardware database: first question, later look-ups. `python -m bench.hwdb_lookup`."""

from __future__ import annotations

import statistics
import time

LIMIT = 1e-3  # a look-up after the first [s]


def main() -> None:
    """Prints the times; fails when a look-up takes longer than LIMIT."""
    start = time.perf_counter()
    from portable import hwdb
    from portable.device import DeviceInfo

    imported = time.perf_counter()
    info = DeviceInfo("NVIDIA H200", units=132)
    hwdb.find(info)
    first = time.perf_counter()
    print(f"import portable.hwdb {1e3 * (imported - start):.1f} ms")
    print(f"first find           {1e3 * (first - imported):.1f} ms (reads every TOML file)")
    for name, call in (("find", lambda: hwdb.find(info)), ("get", lambda: hwdb.get("H200 SXM"))):
        call()
        times = []
        for _ in range(500):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        median = statistics.median(times)
        print(f"{name:20s} {1e6 * median:.0f} us (median of 500, worst {1e6 * max(times):.0f})")
        assert median < LIMIT, f"{name} takes {median:.2g} s, allowed {LIMIT:g}"


if __name__ == "__main__":
    main()
