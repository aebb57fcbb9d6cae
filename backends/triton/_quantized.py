"""Product of quantized matrices: exact integer sums, or fp8 on the unit that keeps float32 sums."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from portable.backends.triton._elements import block_index, multiplicand, narrow
from portable.backends.triton._gemm import grouped


@triton.jit
def e4m3_to_half(bits):
    """OCP e4m3 bits as float16, exact: exponent and mantissa moved, times 2^8 for the bias."""
    wide = bits.to(tl.int16)
    sign = (wide & 0x80) << 8
    magnitude = wide & 0x7F
    half = (sign | (magnitude << 7)).to(tl.float16, bitcast=True) * 256.0
    return tl.where(magnitude == 0x7F, float("nan"), half).to(tl.float16)


@triton.jit
def factor(x, FORM: tl.constexpr):
    """A loaded tile as a factor: int8 as it is, fp8 for the matrix unit or decoded."""
    if FORM == "half":
        return e4m3_to_half(x)
    else:
        return x


@triton.jit
def quantized_kernel(
    a, b, scale_a, scale_b, c, M, N, K, am, ak, bk, bn, sam, sak, sbk, sbn, block,
    FORM: tl.constexpr, WITHIN: tl.constexpr, COLUMNS: tl.constexpr, EVEN_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """c = (scale_a a) @ (scale_b b).

    FORM: "int8", "native" (fp8 operands) or "half" (fp8 decoded to float16).
    WITHIN: how scales vary with k: "never" (applied once, after an exact sum), "tile" (a tile of
    k lies in one block) or "element" (both operands are dequantized to float32).
    COLUMNS: columns that share a scale of b.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    tile_m, tile_n = grouped(tl.program_id(0), tiles_m, tiles_n, GROUP_M)
    row = block_index(tile_m, BLOCK_M, WIDE)
    col = block_index(tile_n, BLOCK_N, WIDE)
    row_in = row % M
    col_in = col % N
    ap = a + row_in[:, None] * am
    bp = b + col_in[None, :] * bn
    sap = scale_a + row_in * sam
    sbp = scale_b + col_in // COLUMNS * sbn
    INTEGER: tl.constexpr = FORM == "int8" and WITHIN == "never"
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.int32 if INTEGER else tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + block_index(0 * tile_m, BLOCK_K, WIDE)
        if EVEN_K:
            x = tl.load(ap + k[None, :] * ak)
            y = tl.load(bp + k[:, None] * bk)
        else:
            x = tl.load(ap + k[None, :] * ak, mask=(k < K)[None, :], other=0)
            y = tl.load(bp + k[:, None] * bk, mask=(k < K)[:, None], other=0)
        x = factor(x, FORM)
        y = factor(y, FORM)
        if WITHIN == "never":
            if FORM == "int8":
                acc = tl.dot(x, y, acc, out_dtype=tl.int32)
            else:
                acc = tl.dot(multiplicand(x), multiplicand(y), acc)
        elif WITHIN == "tile":
            if FORM == "int8":
                part = tl.dot(x, y, out_dtype=tl.int32).to(tl.float32)
            else:
                part = tl.dot(multiplicand(x), multiplicand(y))
            at = start // block
            scales = tl.load(sap + at * sak)[:, None] * tl.load(sbp + at * sbk)[None, :]
            acc += part * scales
        else:
            inside = k < K
            at = tl.where(inside, k, 0) // block
            left = tl.load(sap[:, None] + at[None, :] * sak)
            right = tl.load(sbp[None, :] + at[:, None] * sbk)
            left = tl.where(inside[None, :], x.to(tl.float32) * left, 0.0)
            right = tl.where(inside[:, None], y.to(tl.float32) * right, 0.0)
            acc = tl.dot(left, right, acc, input_precision="ieee")
    if WITHIN == "never":
        scales = tl.load(sap)[:, None] * tl.load(sbp)[None, :]
        acc = acc.to(tl.float32) * scales
    live = (row < M)[:, None] & (col < N)[None, :]
    tl.store(c + row[:, None] * N + col[None, :], narrow(acc, c.dtype.element_ty), mask=live)
