"""Matrix multiplication kernels: tiles, tiles over descriptors, a vector times a matrix."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from portable.backends.triton._elements import (
    activate,
    block_index,
    multiplicand,
    narrow,
    widen,
)


@triton.jit
def grouped(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """(row, column) of a tile when GROUP_M tile rows are walked together: b stays in L2."""
    per_group = GROUP_M * tiles_n
    group = tile // per_group
    first = group * GROUP_M
    size = min(tiles_m - first, GROUP_M)
    return first + (tile % per_group) % size, (tile % per_group) // size


@triton.jit
def gemm(
    a, b, c, bias, residual, M, N, K, inner,
    a0, a1, am, ak, a_step, b0, b1, bk, bn, b_step, bias_n, r0, r1, rm, rn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, SPLIT_K: tl.constexpr,
    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_K: tl.constexpr,
    ACTIVATION: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """c[batch, M, N] = act(a @ b + bias) + residual; c is row-major.

    With SPLIT_K > 1, c is [SPLIT_K, batch, M, N] and holds partial sums without epilogue.
    Rows and columns past the end wrap around: their products are computed and not stored.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    pid = tl.program_id(0)
    tiles = tiles_m * tiles_n
    part = pid // tiles % SPLIT_K
    batch = widen(pid // tiles // SPLIT_K, WIDE)
    batches = tl.num_programs(0) // tiles // SPLIT_K
    tile_m, tile_n = grouped(pid % tiles, tiles_m, tiles_n, GROUP_M)
    row = block_index(tile_m, BLOCK_M, WIDE)
    col = block_index(tile_n, BLOCK_N, WIDE)
    row_in = row if EVEN_M else row % M
    col_in = col if EVEN_N else col % N
    k = block_index(part, BLOCK_K, WIDE)
    ap = a + batch // inner * a0 + batch % inner * a1 + row_in[:, None] * am + k[None, :] * ak
    bp = b + batch // inner * b0 + batch % inner * b1 + k[:, None] * bk + col_in[None, :] * bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(part * BLOCK_K, K, BLOCK_K * SPLIT_K):
        if EVEN_K:
            x = tl.load(ap)
            y = tl.load(bp)
        else:
            left = K - start
            inside = tl.arange(0, BLOCK_K) < left
            x = tl.load(ap, mask=inside[None, :], other=0.0)
            y = tl.load(bp, mask=inside[:, None], other=0.0)
        acc = tl.dot(
            multiplicand(x), multiplicand(y), acc, input_precision=PRECISION, out_dtype=ACC
        )
        ap += a_step
        bp += b_step
    live = (row < M)[:, None] & (col < N)[None, :]
    at = row[:, None] * N + col[None, :]
    if SPLIT_K > 1:
        base = c + (widen(part, WIDE) * batches + batch) * M * N
        tl.store(base + at, acc, mask=live)
    else:
        r = batch // inner * r0 + batch % inner * r1 + row[:, None] * rm + col[None, :] * rn
        if bias is not None:
            acc += tl.load(bias + col_in * bias_n).to(ACC)[None, :]
        acc = activate(acc, ACTIVATION)
        if residual is not None:
            acc += tl.load(residual + r, mask=live, other=0.0).to(ACC)
        tl.store(c + batch * M * N + at, narrow(acc, c.dtype.element_ty), mask=live)


@triton.jit
def gemm_descriptor(
    a, b, c, bias, M, N, K, bias_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    PROGRAMS: tl.constexpr, ACTIVATION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """c = act(a @ b + bias) over tensor descriptors (TMA): persistent programs, row-major operands.

    Loads past the edge give zeros and stores past it are dropped by the descriptor.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        tile_m, tile_n = grouped(tile, tiles_m, tiles_n, GROUP_M)
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for start in range(0, K, BLOCK_K):
            x = a.load([tile_m * BLOCK_M, start])
            y = b.load([start, tile_n * BLOCK_N])
            acc = tl.dot(multiplicand(x), multiplicand(y), acc)
        if bias is not None:
            col = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
            acc += tl.load(bias + col * bias_n, mask=col < N, other=0.0).to(tl.float32)[None, :]
        acc = activate(acc, ACTIVATION)
        c.store([tile_m * BLOCK_M, tile_n * BLOCK_N], narrow(acc, c.dtype))


@triton.jit
def gemv(
    a, b, c, N, K, inner, a0, a1, ak, b0, b1, bk, bn,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
    ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """c[SPLIT_K, batch, N]: sums of a[batch, K] @ b[batch, K, N] over each part of K.

    Streams b once; the products are summed over a [BLOCK_K, BLOCK_N] tile of accumulators.
    """
    tiles = tl.cdiv(N, BLOCK_N)
    pid = tl.program_id(0)
    part = pid // tiles % SPLIT_K
    batch = widen(pid // tiles // SPLIT_K, WIDE)
    batches = tl.num_programs(0) // tiles // SPLIT_K
    col = block_index(pid % tiles, BLOCK_N, WIDE)
    ap = a + batch // inner * a0 + batch % inner * a1
    bp = b + batch // inner * b0 + batch % inner * b1 + (col * bn)[None, :]
    acc = tl.zeros([BLOCK_K, BLOCK_N], ACC)
    each = tl.cdiv(tl.cdiv(K, SPLIT_K), BLOCK_K) * BLOCK_K
    for start in range(part * each, min(K, (part + 1) * each), BLOCK_K):
        k = start + widen(tl.arange(0, BLOCK_K), WIDE)
        x = tl.load(ap + k * ak, mask=k < K, other=0.0).to(ACC)
        inside = (k < K)[:, None] & (col < N)[None, :]
        acc += x[:, None] * tl.load(bp + (k * bk)[:, None], mask=inside, other=0.0).to(ACC)
    out = (widen(part, WIDE) * batches + batch) * N + col
    tl.store(c + out, narrow(tl.sum(acc, axis=0), c.dtype.element_ty), mask=col < N)


@triton.jit
def combine(
    partial, c, bias, residual, size, M, N, inner, bias_n, r0, r1, rm, rn,
    SPLIT_K: tl.constexpr, BLOCK: tl.constexpr, ACTIVATION: tl.constexpr, ACC: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """c = act(sum of the parts + bias) + residual, element by element; always the same order."""
    at = block_index(tl.program_id(0), BLOCK, WIDE)
    live = at < size
    acc = tl.zeros([BLOCK], ACC)
    partial += at
    for _ in range(SPLIT_K):
        acc += tl.load(partial, mask=live, other=0.0)
        partial += size
    col = at % N
    row = at // N % M
    batch = at // N // M
    if bias is not None:
        acc += tl.load(bias + col * bias_n, mask=live, other=0.0).to(ACC)
    acc = activate(acc, ACTIVATION)
    if residual is not None:
        r = batch // inner * r0 + batch % inner * r1 + row * rm + col * rn
        acc += tl.load(residual + r, mask=live, other=0.0).to(ACC)
    tl.store(c + at, narrow(acc, c.dtype.element_ty), mask=live)
