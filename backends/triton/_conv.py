"""Convolution kernels: implicit matrix product, direct, and Winograd transforms."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from portable.backends.triton._elements import block_index, multiplicand, narrow, widen


@triton.jit
def conv_implicit(
    x, w, bias, y, pixels, outputs, depth, OH, OW, H, W, KH, KW, tiles_m, tiles_n,
    xn, xc, xh, xw, wo, wi, wh, ww, bias_n, stride_h, stride_w, pad_h, pad_w, dil_h, dil_w,
    channels, filters,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """A product [pixels, depth] @ [depth, filters] per group; depth = channels * KH * KW.

    pixels counts (image, row, column) of the result; x's side is gathered, never stored.
    channels, filters and outputs = filters * groups are counted per group, per group, in all.
    """
    pid = tl.program_id(0)
    tile_n = pid % tiles_n
    tile_m = pid // tiles_n % tiles_m
    group = pid // tiles_n // tiles_m
    pixel = block_index(tile_m, BLOCK_M, WIDE)
    filter_ = block_index(tile_n, BLOCK_N, WIDE)
    j = pixel % OW
    i = pixel // OW % OH
    image = pixel // OW // OH
    top = i * stride_h - pad_h
    left = j * stride_w - pad_w
    base = x + image * xn + widen(group, WIDE) * channels * xc
    wp = w + (widen(group, WIDE) * filters + filter_) * wo
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for start in range(0, depth, BLOCK_K):
        k = start + widen(tl.arange(0, BLOCK_K), WIDE)
        kw = k % KW
        kh = k // KW % KH
        c = k // KW // KH
        h = top[:, None] + (kh * dil_h)[None, :]
        v = left[:, None] + (kw * dil_w)[None, :]
        inside = (h >= 0) & (h < H) & (v >= 0) & (v < W) & (k < depth)[None, :]
        inside = inside & (pixel < pixels)[:, None]
        at = (c * xc)[None, :] + h * xh + v * xw
        a = tl.load(base[:, None] + at, mask=inside, other=0.0)
        live = (k < depth)[:, None] & (filter_ < filters)[None, :]
        b = tl.load(wp[None, :] + (c * wi + kh * wh + kw * ww)[:, None], mask=live, other=0.0)
        acc = tl.dot(
            multiplicand(a), multiplicand(b), acc, input_precision=PRECISION, out_dtype=ACC
        )
    output = widen(group, WIDE) * filters + filter_
    if bias is not None:
        acc += tl.load(bias + output * bias_n, mask=filter_ < filters, other=0.0).to(ACC)[None, :]
    plane = OH * OW
    out = image * outputs * plane + i * OW + j
    live = (pixel < pixels)[:, None] & (filter_ < filters)[None, :]
    yp = y + out[:, None] + (output * plane)[None, :]
    tl.store(yp, narrow(acc, y.dtype.element_ty), mask=live)


@triton.jit
def conv_direct(
    x, w, bias, y, outputs, depth, OH, OW, H, W, KH, KW, tiles,
    xn, xc, xh, xw, wo, wi, wh, ww, bias_n, stride_h, stride_w, pad_h, pad_w, dil_h, dil_w,
    channels, filters, BLOCK: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One filter on a block of pixels: for groups with few filters (depthwise)."""
    pid = tl.program_id(0)
    pixel = block_index(pid % tiles, BLOCK, WIDE)
    output = widen(pid // tiles % outputs, WIDE)
    image = widen(pid // tiles // outputs, WIDE)
    i = pixel // OW
    j = pixel % OW
    top = i * stride_h - pad_h
    left = j * stride_w - pad_w
    base = x + image * xn + output // filters * channels * xc
    acc = tl.zeros([BLOCK], ACC)
    for k in range(0, depth):
        kw = k % KW
        kh = k // KW % KH
        c = widen(k // KW // KH, WIDE)
        h = top + kh * dil_h
        v = left + kw * dil_w
        inside = (h >= 0) & (h < H) & (v >= 0) & (v < W) & (i < OH)
        value = tl.load(base + (c * xc + h * xh + v * xw), mask=inside, other=0.0).to(ACC)
        acc += value * tl.load(w + output * wo + c * wi + kh * wh + kw * ww).to(ACC)
    if bias is not None:
        acc += tl.load(bias + output * bias_n).to(ACC)
    at = (image * outputs + output) * OH * OW + pixel
    tl.store(y + at, narrow(acc, y.dtype.element_ty), mask=i < OH)


@triton.jit
def input_points(a, b, c, d):
    """One axis of B^T d B of F(2, 3): four samples to four points."""
    return a - c, b + c, c - b, b - d


@triton.jit
def output_points(a, b, c, d):
    """One axis of A^T m A of F(2, 3): four points to two results."""
    return a + b + c, b - c - d


@triton.jit
def filter_points(a, b, c):
    """One axis of G g G^T of F(2, 3): three taps to four points."""
    return a, (a + b + c) * 0.5, (a - b + c) * 0.5, c


@triton.jit
def load4(p, h, v, H, W, xh, xw, live, ACC: tl.constexpr):
    """Four neighbours of a row; outside of the image 0."""
    row = live & (h >= 0) & (h < H)
    at = p + h * xh + v * xw
    a = tl.load(at, mask=row & (v >= 0) & (v < W), other=0.0).to(ACC)
    b = tl.load(at + xw, mask=row & (v + 1 >= 0) & (v + 1 < W), other=0.0).to(ACC)
    c = tl.load(at + 2 * xw, mask=row & (v + 2 >= 0) & (v + 2 < W), other=0.0).to(ACC)
    d = tl.load(at + 3 * xw, mask=row & (v + 3 >= 0) & (v + 3 < W), other=0.0).to(ACC)
    return a, b, c, d


@triton.jit
def store4(p, step, a, b, c, d, live):
    """Four points, each `step` apart."""
    tl.store(p, a, mask=live)
    tl.store(p + step, b, mask=live)
    tl.store(p + 2 * step, c, mask=live)
    tl.store(p + 3 * step, d, mask=live)


@triton.jit
def winograd_input(
    x, points, step, tiles, TH, TW, H, W, xn, xc, xh, xw, pad_h, pad_w,
    BLOCK: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """points[16, C, tiles] = B^T d B of every 4x4 tile (2 apart) of every channel."""
    blocks = tl.cdiv(tiles, BLOCK)
    tile = block_index(tl.program_id(0) % blocks, BLOCK, WIDE)
    c = widen(tl.program_id(0) // blocks, WIDE)
    live = tile < tiles
    h = tile // TW % TH * 2 - pad_h
    v = tile % TW * 2 - pad_w
    p = x + tile // TW // TH * xn + c * xc
    a0, a1, a2, a3 = load4(p, h, v, H, W, xh, xw, live, ACC)
    b0, b1, b2, b3 = load4(p, h + 1, v, H, W, xh, xw, live, ACC)
    c0, c1, c2, c3 = load4(p, h + 2, v, H, W, xh, xw, live, ACC)
    d0, d1, d2, d3 = load4(p, h + 3, v, H, W, xh, xw, live, ACC)
    a0, a1, a2, a3 = input_points(a0, a1, a2, a3)
    b0, b1, b2, b3 = input_points(b0, b1, b2, b3)
    c0, c1, c2, c3 = input_points(c0, c1, c2, c3)
    d0, d1, d2, d3 = input_points(d0, d1, d2, d3)
    a0, b0, c0, d0 = input_points(a0, b0, c0, d0)
    a1, b1, c1, d1 = input_points(a1, b1, c1, d1)
    a2, b2, c2, d2 = input_points(a2, b2, c2, d2)
    a3, b3, c3, d3 = input_points(a3, b3, c3, d3)
    out = points + c * tiles + tile
    store4(out, step, a0, a1, a2, a3, live)
    store4(out + 4 * step, step, b0, b1, b2, b3, live)
    store4(out + 8 * step, step, c0, c1, c2, c3, live)
    store4(out + 12 * step, step, d0, d1, d2, d3, live)


@triton.jit
def winograd_filter(
    w, points, size, C, wo, wi, wh, ww, BLOCK: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr
):
    """points[16, O, C] = G g G^T of every 3x3 filter."""
    at = block_index(tl.program_id(0), BLOCK, WIDE)
    live = at < size
    p = w + at // C * wo + at % C * wi
    a0, a1, a2, a3 = filter_points(
        tl.load(p, mask=live, other=0.0).to(ACC),
        tl.load(p + ww, mask=live, other=0.0).to(ACC),
        tl.load(p + 2 * ww, mask=live, other=0.0).to(ACC),
    )
    b0, b1, b2, b3 = filter_points(
        tl.load(p + wh, mask=live, other=0.0).to(ACC),
        tl.load(p + wh + ww, mask=live, other=0.0).to(ACC),
        tl.load(p + wh + 2 * ww, mask=live, other=0.0).to(ACC),
    )
    c0, c1, c2, c3 = filter_points(
        tl.load(p + 2 * wh, mask=live, other=0.0).to(ACC),
        tl.load(p + 2 * wh + ww, mask=live, other=0.0).to(ACC),
        tl.load(p + 2 * wh + 2 * ww, mask=live, other=0.0).to(ACC),
    )
    a0, b0, c0, d0 = filter_points(a0, b0, c0)
    a1, b1, c1, d1 = filter_points(a1, b1, c1)
    a2, b2, c2, d2 = filter_points(a2, b2, c2)
    a3, b3, c3, d3 = filter_points(a3, b3, c3)
    store4(points + at, size, a0, a1, a2, a3, live)
    store4(points + 4 * size + at, size, b0, b1, b2, b3, live)
    store4(points + 8 * size + at, size, c0, c1, c2, c3, live)
    store4(points + 12 * size + at, size, d0, d1, d2, d3, live)


@triton.jit
def load_points(p, step, live):
    """Four points, each `step` apart."""
    a = tl.load(p, mask=live, other=0.0)
    b = tl.load(p + step, mask=live, other=0.0)
    c = tl.load(p + 2 * step, mask=live, other=0.0)
    d = tl.load(p + 3 * step, mask=live, other=0.0)
    return a, b, c, d


@triton.jit
def winograd_output(
    points, bias, y, step, tiles, TH, TW, outputs, OH, OW, bias_n,
    BLOCK: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """y = A^T m A of points[16, outputs, tiles], with the bias: 2x2 results a tile."""
    blocks = tl.cdiv(tiles, BLOCK)
    tile = block_index(tl.program_id(0) % blocks, BLOCK, WIDE)
    o = widen(tl.program_id(0) // blocks, WIDE)
    live = tile < tiles
    p = points + o * tiles + tile
    a0, a1, a2, a3 = load_points(p, step, live)
    b0, b1, b2, b3 = load_points(p + 4 * step, step, live)
    c0, c1, c2, c3 = load_points(p + 8 * step, step, live)
    d0, d1, d2, d3 = load_points(p + 12 * step, step, live)
    a0, a1 = output_points(a0, a1, a2, a3)
    b0, b1 = output_points(b0, b1, b2, b3)
    c0, c1 = output_points(c0, c1, c2, c3)
    d0, d1 = output_points(d0, d1, d2, d3)
    a0, b0 = output_points(a0, b0, c0, d0)
    a1, b1 = output_points(a1, b1, c1, d1)
    if bias is not None:
        extra = tl.load(bias + o * bias_n).to(ACC)
        a0 += extra
        a1 += extra
        b0 += extra
        b1 += extra
    i = tile // TW % TH * 2
    j = tile % TW * 2
    at = y + ((tile // TW // TH * outputs + o) * OH + i) * OW + j
    right = j + 1 < OW
    below = i + 1 < OH
    tl.store(at, narrow(a0, y.dtype.element_ty), mask=live)
    tl.store(at + 1, narrow(a1, y.dtype.element_ty), mask=live & right)
    tl.store(at + OW, narrow(b0, y.dtype.element_ty), mask=live & below)
    tl.store(at + OW + 1, narrow(b1, y.dtype.element_ty), mask=live & right & below)
