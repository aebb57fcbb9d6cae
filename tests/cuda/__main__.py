"""Everything, on request: all cases of all ops, dtypes and configs on the emulation.

python -m tests.cuda [--every-config] [--arch sm_80] [OP ...]
python -m tests.cuda --sanitizer address|thread       one small launch of every kernel
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from tempfile import gettempdir

from tests.cuda import plans, sanitizing
from tests.cuda.emulation import EmulatedRuntime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ops", nargs="*", default=list(plans.OPS))
    parser.add_argument("--arch", default="sm_80")
    parser.add_argument("--every-config", action="store_true")
    parser.add_argument("--sanitizer", choices=("address", "thread"))
    chosen = parser.parse_args()
    cache = Path(gettempdir()) / "portable-cuda-emulation"
    cache.mkdir(exist_ok=True)
    if chosen.sanitizer:
        return sanitizing.everything(cache, chosen.sanitizer)
    failures = 0
    for name in chosen.ops:
        start, op = time.perf_counter(), plans.op_of(name)
        runtime = EmulatedRuntime(plans.small(chosen.arch), cache)
        selection = list(plans.every(op))
        wrong = plans.run(runtime, op, selection, every_config=chosen.every_config)
        failures += len(wrong)
        for line in wrong:
            print(f"{name}: {line}")
        seconds = time.perf_counter() - start
        print(f"{name}: {len(selection)} cases x dtypes, {seconds:.0f} s", flush=True)
    print(f"{failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
