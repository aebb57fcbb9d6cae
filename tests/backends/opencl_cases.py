"""Ops' cases on OpenCL devices, and the child process that runs small ones under Oclgrind."""

from __future__ import annotations

import math
import random
import sys

from portable import cases, check, registry


def selected(op, device, share, largest=None, levels=("core", "full", "hostile")):
    """(label, problem, arrays) of a fixed random share of the cases."""
    draw = random.Random(f"{op.name} {device.runtime}")
    for case in op.cases():
        size = max((math.prod(o.shape) for o in case.operands.values()), default=0)
        if case.level not in levels or (largest is not None and size > largest):
            continue
        for dtype in cases.dtypes_of(op, case):
            if draw.random() < share:
                arrays = cases.arrays(op, case, dtype)
                yield f"{case.name} {dtype}", cases.problem_of(op, arrays, case), arrays


def failures(name, device, share, largest=None, most_configs=1):
    """How many kernels ran, which were refused, and what was wrong."""
    op, found, refused, count = registry.op(name), [], 0, 0
    implementation = registry.backend("opencl").implementation(name)
    for label, problem, arrays in selected(op, device, share, largest):
        if implementation.why_not(problem, device):
            refused += 1
            continue
        for config in implementation.configs(problem, device)[:most_configs]:
            count += 1
            results = implementation.compile(problem, device, config)(*arrays)
            wrong = check.check(op, problem, arrays, results)
            found += [f"{label} {dict(config)}: {line}" for line in wrong]
    return count, refused, found


def one_row(device):
    """As `failures`, of the products of one row with rows of B at once, which need large operands
    to be chosen."""
    import numpy as np

    op, found = registry.op("matmul"), []
    implementation = registry.backend("opencl").implementation("matmul")
    shapes = [(150, 11), (67, 4), (3, 9)]
    for n, k in shapes:
        arrays = [np.random.default_rng(0).standard_normal(s, np.float32) for s in ((1, k), (k, n))]
        problem = cases.problem_of(op, dict(zip("ab", arrays, strict=True)), {})
        vector = implementation.configs(problem, device)[0]["vector"]
        config = {"kind": "gemv_nn", "mc": 1, "r": 4, "strip": 0, "vector": vector, "swap": False}
        results = implementation.compile(problem, device, config)(*arrays)
        found += check.check(op, problem, arrays, results)
    return len(shapes), 0, found


PLANTED = {
    "race": ("barrier(CLK_LOCAL_MEM_FENCE);", ""),
    "overrun": ("long whole = n - n % VW;", "long whole = n + VW - n % VW;"),
    "": ("", ""),
}


def planted(fault):
    """Softmax by groups of 8, with a fault planted in its real source."""
    import numpy as np

    from portable.backends.opencl import _build, _runtime

    cl = _runtime.load()
    (device,) = [d for d in _runtime.devices() if d.runtime == "oclgrind"]
    queue = _runtime.queue(device)
    text = _build.source(("softmax.cl",)).replace(*PLANTED[fault])
    options = ["-DDT_F32", "-DVW=4", "-DLOCAL=8", "-w"]
    kernel = cl.Program(queue.context, text).build(options=options).softmax_rows
    x = np.ones((2, 70), np.float32)
    flags = cl.mem_flags
    source = cl.Buffer(queue.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
    target = cl.Buffer(queue.context, flags.READ_WRITE, size=x.nbytes)
    zero = np.int64(0)
    sizes = [np.int64(n) for n in (2, 70, 70)]
    kernel(queue, (16,), (8,), source, zero, target, zero, *sizes).wait()


def main() -> None:
    """`ops NAME...`, which includes `one_row`, or `planted FAULT`, on Oclgrind."""
    what, *names = sys.argv[1:]
    if what == "planted":
        planted(names[0] if names else "")
        return
    (device,) = [d for d in registry.backend("opencl").devices() if d.runtime == "oclgrind"]
    total = 0
    for name in names:
        if name == "one_row":
            count, _, wrong = one_row(device)
        else:
            count, _, wrong = failures(name, device, 0.08, largest=700, most_configs=2)
        total += count
        if wrong:
            sys.exit(f"{name}: {wrong[0]}")
    print(f"{total} kernels ran on {device.info.kind}")


if __name__ == "__main__":
    main()
