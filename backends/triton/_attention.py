"""Attention kernels: tiles of queries over tiles of keys with an online softmax."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from portable.backends.triton._elements import block_index, multiplicand, narrow, widen


@triton.jit
def absorb(
    acc, top, total, q, kp, vp, mask, mq, row_in, query, start, t, d, dv, s, kt, kd, vt, vd, mt,
    SCALE: tl.constexpr, CAUSAL: tl.constexpr, EDGE: tl.constexpr, BOOL: tl.constexpr,
    ACC: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr,
    EVEN_D: tl.constexpr, EVEN_V: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One tile of keys; scores are in base 2. EDGE tiles hold keys that some query must not see."""
    key = start + widen(tl.arange(0, BLOCK_N), WIDE)
    depth = widen(tl.arange(0, BLOCK_D), WIDE)
    width = widen(tl.arange(0, BLOCK_V), WIDE)
    k_at = kp + key[None, :] * kt + depth[:, None] * kd
    v_at = vp + key[:, None] * vt + width[None, :] * vd
    if EDGE:
        k = tl.load(k_at, mask=(key < t)[None, :] & (depth < d)[:, None], other=0.0)
        v = tl.load(v_at, mask=(key < t)[:, None] & (width < dv)[None, :], other=0.0)
    else:
        k = tl.load(k_at) if EVEN_D else tl.load(k_at, mask=(depth < d)[:, None], other=0.0)
        v = tl.load(v_at) if EVEN_V else tl.load(v_at, mask=(width < dv)[None, :], other=0.0)
    score = tl.dot(q, multiplicand(k), input_precision="ieee", out_dtype=ACC) * SCALE
    if mask is not None:
        inside = row_in[:, None] & (key < t)[None, :]
        added = tl.load(mask + mq[:, None] + key[None, :] * mt, mask=inside, other=0)
        if BOOL:
            score = tl.where(added != 0, score, float("-inf"))
        else:
            score += added.to(ACC) * 1.4426950408889634
    if EDGE:
        seen = (key < t)[None, :]
        if CAUSAL:
            seen = seen & (key[None, :] <= query[:, None] + (t - s))
        score = tl.where(seen, score, float("-inf"))
    new_top = tl.maximum(top, tl.max(score, axis=1))
    # rows that have seen no key yet must not make exp2(-inf + inf) = NaN
    safe = tl.where(new_top == float("-inf"), 0.0, new_top)
    weight = tl.exp2(score - safe[:, None])
    shrink = tl.exp2(top - safe)
    total = total * shrink + tl.sum(weight, axis=1)
    acc = acc * shrink[:, None]
    weight = multiplicand(narrow(weight, v.dtype))
    acc = tl.dot(weight, multiplicand(v), acc, input_precision="ieee", out_dtype=ACC)
    return acc, new_top, total


@triton.jit
def attention_kernel(
    q, k, v, mask, y, tops, totals, heads, group, s, t, d, dv, rows, each,
    qb, qh, qs, qd, kb, kh, kt, kd, vb, vh, vt, vd, mb, mh, ms, mt,
    SCALE: tl.constexpr, SPLIT: tl.constexpr, CAUSAL: tl.constexpr, BOOL: tl.constexpr,
    EVEN_D: tl.constexpr, EVEN_V: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Attention of one tile of rows; the rows of a key head are its query heads' queries.

    With SPLIT > 1 a program sees one part of the keys and stores weights and sums unnormalised.
    heads is the number of key heads, group the query heads of each.
    """
    tiles = tl.cdiv(rows, BLOCK_M)
    pid = tl.program_id(0)
    tile = tiles - 1 - pid % tiles  # with a causal mask the last tiles are the longest
    part = pid // tiles % SPLIT
    plane = pid // tiles // SPLIT
    head = widen(plane % heads, WIDE)
    batch = widen(plane // heads, WIDE)
    row = block_index(tile, BLOCK_M, WIDE)
    row_in = row < rows
    query = row % s
    q_head = head * group + row // s
    depth = widen(tl.arange(0, BLOCK_D), WIDE)
    q_at = q + batch * qb + (q_head * qh + query * qs)[:, None] + (depth * qd)[None, :]
    query_tile = tl.load(q_at, mask=row_in[:, None] & (depth < d)[None, :], other=0.0)
    query_tile = multiplicand(query_tile)
    kp = k + batch * kb + head * kh
    vp = v + batch * vb + head * vh
    mq = batch * mb + q_head * mh + query * ms
    acc = tl.zeros([BLOCK_M, BLOCK_V], ACC)
    top = tl.full([BLOCK_M], float("-inf"), ACC)
    total = tl.zeros([BLOCK_M], ACC)
    low = part * each
    high = min(t, low + each)
    whole = high
    if CAUSAL:
        first = tile * BLOCK_M
        last = min(first + BLOCK_M, rows) - 1
        one_head = first // s == last // s
        least = first % s if one_head else 0
        most = last % s if one_head else s - 1
        whole = min(high, max(low, least + t - s + 1))
        high = min(high, most + t - s + 1)
    whole = low + (whole - low) // BLOCK_N * BLOCK_N
    for start in range(low, whole, BLOCK_N):
        acc, top, total = absorb(
            acc, top, total, query_tile, kp, vp, mask, mq, row_in, query, start, t, d, dv, s,
            kt, kd, vt, vd, mt, SCALE, CAUSAL, False, BOOL, ACC, BLOCK_N, BLOCK_D, BLOCK_V,
            EVEN_D, EVEN_V, WIDE,
        )  # fmt: skip
    for start in range(whole, high, BLOCK_N):
        acc, top, total = absorb(
            acc, top, total, query_tile, kp, vp, mask, mq, row_in, query, start, t, d, dv, s,
            kt, kd, vt, vd, mt, SCALE, CAUSAL, True, BOOL, ACC, BLOCK_N, BLOCK_D, BLOCK_V,
            EVEN_D, EVEN_V, WIDE,
        )  # fmt: skip
    width = widen(tl.arange(0, BLOCK_V), WIDE)
    live = row_in[:, None] & (width < dv)[None, :]
    if SPLIT > 1:
        at = (widen(plane, WIDE) * SPLIT + part) * rows + row
        tl.store(tops + at, top, mask=row_in)
        tl.store(totals + at, total, mask=row_in)
        tl.store(y + at[:, None] * dv + width[None, :], acc, mask=live)
    else:
        acc = acc / tl.where(total == 0, 1.0, total)[:, None]  # no key left: 0, not NaN
        at = widen(plane, WIDE) * rows + row
        result = narrow(acc, y.dtype.element_ty)
        tl.store(y + at[:, None] * dv + width[None, :], result, mask=live)


@triton.jit
def attention_combine(
    parts, tops, totals, y, rows, planes, dv,
    SPLIT: tl.constexpr, BLOCK_V: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """y[row] = sum over the parts, each scaled to the common maximum."""
    row = widen(tl.program_id(0) % rows, WIDE)
    plane = widen(tl.program_id(0) // rows, WIDE)
    width = widen(tl.arange(0, BLOCK_V), WIDE)
    at = (plane * SPLIT + tl.arange(0, SPLIT)) * rows + row
    top = tl.load(tops + at)
    highest = tl.max(top, axis=0)
    safe = tl.where(highest == float("-inf"), 0.0, highest)
    shrink = tl.exp2(top - safe)
    total = tl.sum(tl.load(totals + at) * shrink, axis=0)
    live = (width < dv)[None, :]
    value = tl.load(parts + at[:, None] * dv + width[None, :], mask=live, other=0.0)
    result = tl.sum(value * shrink[:, None], axis=0) / tl.where(total == 0, 1.0, total)
    out = (plane * rows + row) * dv + width
    tl.store(y + out, narrow(result, y.dtype.element_ty), mask=width < dv)
