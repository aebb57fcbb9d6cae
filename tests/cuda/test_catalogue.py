"""The list of what would be built, and the names whose content is part of a record's key."""

from __future__ import annotations

import re

import pytest

from portable.backends.cuda import backend
from portable.backends.cuda._build import read
from portable.backends.cuda._catalogue import TYPICAL
from portable.backends.cuda._runtime import Collector
from tests.cuda import plans


def test_every_op_is_listed():
    assert {typical.op for typical in TYPICAL} == set(backend.ops())


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a", "gfx942"])
def test_kernels_fit_the_target(arch):
    built_for = plans.target(arch)
    for variant in backend.kernels(arch):
        assert variant.shared <= built_for.shared, variant.kernel
        assert variant.block % built_for.warp == 0, variant.kernel
        assert f"{variant.kernel}(" in variant.source


@pytest.mark.parametrize("name", plans.OPS)
def test_sources_name_every_file_a_record_depends_on(name):
    module, used = plans.module_of(name), set()
    for typical in (t for t in TYPICAL if t.op == name):
        for dtype in typical.dtypes:
            problem = typical.problem(dtype)
            for config in module.configs(problem, plans.device("sm_80")):
                notes = Collector(plans.small("sm_80"))
                module.build(problem, config, notes, True)
                used |= {variant.file for variant in notes.variants}
    used |= {h for file in used for h in re.findall(r'#include "(\w+\.cuh)"', read(file))}
    assert used <= set(module.SOURCES)
    for file in module.SOURCES:
        assert read(file)
