"""Triton kernels as someone else would write them, for `--source`."""

import triton
import triton.language as tl


@triton.heuristics({"FACTOR": lambda arguments: 2.0})
@triton.jit
def scale(x, y, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = at < n
    tl.store(y + at, tl.load(x + at, mask=live) * FACTOR, mask=live)


@triton.autotune([triton.Config({"BLOCK": 32}, num_warps=1)], key=[])
@triton.jit
def product(a, b, c, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = i[:, None] * BLOCK + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@triton.jit
def greedy(x, y, BLOCK: tl.constexpr):
    """Keeps a block four times too large for the registers alive over a reduction."""
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.store(y + at, value / tl.sum(value, axis=0))


@triton.jit
def wrong(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), tl.no_such_function(BLOCK))
