"""The CUDA sources run on the CPU: every op's cases within the op's own error bound.

By default each case runs in one of its dtypes, in turn; `python -m tests.cuda` runs all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portable import cases, check, dtypes
from portable.backends.cuda._plan import guarded
from portable.op import Case, Operand
from tests.cuda import plans
from tests.cuda.emulation import EmulatedRuntime


@pytest.mark.parametrize("name", plans.OPS)
def test_cases(name, objects):
    op, runtime = plans.op_of(name), EmulatedRuntime(plans.small("sm_80"), objects)
    wrong = plans.run(runtime, op, plans.some(op))
    assert not wrong, "\n".join(wrong[:20])
    assert runtime.launched


@pytest.mark.parametrize("name", ["matmul", "attention", "conv2d"])
def test_sm_75_has_its_own_path(name, objects):
    """f16 on the matrix units without cp.async, bfloat16 on the vector units."""
    op, runtime = plans.op_of(name), EmulatedRuntime(plans.small("sm_75"), objects)
    core = [c for c in op.cases() if c.level == "core"][::3]
    halves = [(c, d) for c in core for d in cases.dtypes_of(op, c) if d in ("float16", "bfloat16")]
    wrong = plans.run(runtime, op, halves)
    assert not wrong, "\n".join(wrong[:20])


ROWS = ["softmax", "rms_norm", "add_rms_norm", "sum", "argmax", "cumsum", "cross_entropy"]


@pytest.mark.parametrize("name", ROWS)
def test_warps_of_64(name, objects):
    """The row-wise sources assume nothing about the size of a warp."""
    op, runtime = plans.op_of(name), EmulatedRuntime(plans.small("gfx942"), objects)
    assert runtime.target.warp == 64
    core = [c for c in op.cases() if c.level == "core"][::2]
    allowed = [cases.dtypes_of(op, case) for case in core]
    selection = [(c, d[i % len(d)]) for i, (c, d) in enumerate(zip(core, allowed, strict=True))]
    wrong = plans.run(runtime, op, selection)
    assert not wrong, "\n".join(wrong[:20])


SPLIT = [
    ("sum", (1, 40000), {"axis": 1}, ["reduce_rows", "reduce_finish"]),
    ("argmax", (50001,), {"axis": 0}, ["reduce_rows", "reduce_finish"]),
    ("max", (20000, 2), {"axis": 0}, ["reduce_columns", "reduce_finish"]),
    ("cumsum", (2, 20001), {"axis": 1}, ["scan_totals", "scan_rows", "scan_rows"]),
    ("softmax", (2, 40000), {"axis": -1}, ["softmax_rows"]),
    ("layer_norm", (2, 40000), {}, ["norm_rows"]),
]


@pytest.mark.parametrize(("name", "shape", "params", "launched"), SPLIT, ids=lambda v: str(v)[:12])
def test_long_rows_are_split_or_streamed(name, shape, params, launched, objects):
    op, runtime = plans.op_of(name), EmulatedRuntime(plans.small("sm_80"), objects)
    case = Case("long", {"x": Operand(shape)}, params)
    assert plans.run(runtime, op, [(case, "float32")]) == []
    assert runtime.launched == launched


def test_decoding_splits_the_keys(objects):
    op, runtime = plans.op_of("attention"), EmulatedRuntime(plans.small("sm_80"), objects)
    heads = {"q": (1, 8, 1, 64), "k": (1, 2, 700, 64), "v": (1, 2, 700, 64)}
    case = Case("decode", {n: Operand(s) for n, s in heads.items()}, {"causal": True})
    assert plans.run(runtime, op, [(case, "float16")]) == []
    assert runtime.launched == ["attention_mma", "attention_combine"]


def test_every_matmul_config_is_right(objects):
    op, runtime = plans.op_of("matmul"), EmulatedRuntime(plans.small("sm_80"), objects)
    for layout in ("contiguous", "transposed"):
        operands = {"a": Operand((70, 88), layout=layout), "b": Operand((88, 72), layout=layout)}
        wrong = plans.run(runtime, op, [(Case("c", operands), "float16")], every_config=True)
        assert not wrong, wrong
    assert {"gemm_mma", "gemm_simt"} <= set(runtime.launched)


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_tf32_only_where_the_caller_allows_it(layout, objects):
    op, module = plans.op_of("matmul"), plans.module_of("matmul")
    runtime = EmulatedRuntime(plans.small("sm_80"), objects)
    operands = {"a": Operand((70, 88), layout=layout), "b": Operand((88, 72), layout=layout)}
    case = Case("tf32", operands)
    arrays = cases.arrays(op, case, "float32")
    full = cases.problem_of(op, arrays, case)
    high = replace(full, precision="high")
    where = plans.device("sm_80")
    assert "wide" not in [c["kind"] for c in module.configs(full, where)]
    config = module.configs(high, where)[0]
    assert config["kind"] == "wide"
    out = module.build(high, config, runtime, True)(*arrays)
    assert check.check(op, high, arrays, out) == []
    assert check.check(op, full, arrays, out) != []  # and it is not full precision


def test_winograd_runs_where_it_pays_and_as_a_choice(objects):
    op, runtime = plans.op_of("conv2d"), EmulatedRuntime(plans.small("sm_80"), objects)
    operands = {"x": Operand((1, 32, 9, 7)), "w": Operand((32, 32, 3, 3)), "bias": Operand((32,))}
    case = Case("w", operands, {"padding": 1})
    assert plans.run(runtime, op, [(case, "float32")]) == []
    assert runtime.launched == [
        "winograd_filter", "winograd_input", "gemm_simt", "winograd_output"
    ]  # fmt: skip


def test_misaligned_views_get_a_kernel_of_their_own(objects):
    op, runtime = plans.op_of("rms_norm"), EmulatedRuntime(plans.small("sm_80"), objects)
    whole = np.random.default_rng(0).standard_normal(4 * 64 + 1).astype(np.float32)
    x = whole[1:].reshape(4, 64)
    assert runtime.pointer(x) % 16
    problem = cases.problem_of(op, [x], {"eps": 1e-6})
    config = plans.module_of("rms_norm").configs(problem, plans.device("sm_80"))[0]
    kernel = guarded(plans.module_of("rms_norm").build, problem, config, runtime)
    assert check.check(op, problem, [x], kernel(x)) == []


def test_nothing_is_refused_but_what_is_said():
    """The only holes: head sizes above 256 and elements of 16 bytes."""
    for name in plans.OPS:
        for reason in plans.refused(plans.op_of(name), "sm_80"):
            assert "limit 256" in reason or "complex128" in reason, (name, reason)


def test_every_op_has_a_module():
    from portable import registry

    assert set(plans.OPS) == set(registry.op_names())
    assert set(dtypes.FLOATS) == {"float64", "float32", "float16", "bfloat16"}
