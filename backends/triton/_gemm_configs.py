"""Configs of matmul and linear: which variants, in which order."""

from __future__ import annotations

from collections.abc import Sequence

from portable.backend import Config
from portable.backends.triton._gemm_plan import Product, descriptors_fit, input_precision
from portable.backends.triton._target import Target
from portable.backends.triton._tiles import (
    RESIDUAL_ROOM,
    candidates,
    shared_bytes,
    vector_configs,
)
from portable.op import Problem

_DESCRIPTOR_TILES = ((128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 4))


def configs(problem: Problem, product: Product, target: Target) -> Sequence[Config]:
    """Vector kernels for one row, descriptors where TMA applies, tiles always."""
    shape, itemsize = product.shape, problem.tensors[0].itemsize
    precision = input_precision(problem, target)
    tiles = candidates(
        shape, problem.dtype, itemsize, precision, target,
        room=RESIDUAL_ROOM if product.residual else 0, narrow=not aligned(product, itemsize),
    )  # fmt: skip
    if shape.m == 1:
        vectors = vector_configs(shape, itemsize, target)
        return vectors if problem.dtype in ("int8", "uint8") else [*vectors, *tiles[:2]]
    if not descriptors_fit(problem, product, target):
        return tiles
    described: list[Config] = []
    for tile in _DESCRIPTOR_TILES:
        if shared_bytes(tile, itemsize, target) + tile[0] * tile[1] * itemsize <= target.shared:
            block_m, block_n, block_k, num_warps, num_stages = tile
            described.append(
                {"variant": "descriptor", "block_m": block_m, "block_n": block_n,
                 "block_k": block_k, "group_m": 8, "num_warps": num_warps,
                 "num_stages": num_stages}
            )  # fmt: skip
    large = shape.m * shape.n >= 128 * 128 * (target.units or 100)
    return [*described, *tiles] if large else [*tiles, *described]


def aligned(product: Product, itemsize: int) -> bool:
    """Whether both operands can be loaded 16 bytes at a time."""
    unit = max(1, 16 // itemsize)
    for _, (s0, s1, row, column) in (product.a, product.b):
        if 1 not in (row, column) or any(s % unit for s in (s0, s1)):
            return False
        if min(row, column) == 1 and max(row, column) % unit:
            return False
    return True
