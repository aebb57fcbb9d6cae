"""Port without the hardware: kernels built for targets, their resources read and judged.

    report = crosscompile(ops=["matmul"], targets=["gfx942", "H200 SXM"])
    report.rows[0].built.registers, report.rows[0].findings
    compare(report.rows, "sm_90", "gfx942")

A backend takes part by a module `_crosscompile` in its package (or an object of its attribute
`crosscompile`) with

    why_missing() -> Missing | None       what its compiler needs; no GPU is needed
    versions() -> Mapping[str, str]       part of the cache key
    why_not_target(arch) -> str           why it cannot build for an architecture; "" if it can

and, where kernels follow from a problem,

    configs(op, problem, arch, units) -> [config] | str     a string is the refusal
    describe(op, problem, arch, units, config) -> [{"kernel", "grid", "source_hash", ...}]
                                          one entry per launch; for products also "extent" and
                                          "tile" (of the result), "factor" (dtype)
    build(op, problem, arch, units, config, index) -> artifact       compiles launch `index`

and, where they are sources (then an entry of `describe` has the "source" and the "config" that
decide the code, and `build` is not needed),

    variants(arch) -> [{"op", "label", "kernel", "config", "source_hash", "factor", "source"}]
                                          what is built when no problems are given
    build_source(**source, architecture) -> artifact        also used for third-party kernels

An artifact is {"kind", "assembly", "log", "shared", "threads", "binary_size"}, with "reserved"
where the log's shared memory holds bytes of the system; a compiler's refusal is raised, its words
in the exception (or its `log`).
`kind` is "ptx" (with ptxas -v's log), "cuobjdump" (its -res-usage output as `log`, -sass as
`assembly`) or "amdgcn". `build` runs in a child process with a watchdog.

Everything here is read from compiler output or computed from it; nothing is measured. Estimates
say so, with their assumptions (`judge.ASSUMPTIONS`).
"""

from __future__ import annotations

from portable.crosscompile.compare import Difference, compare
from portable.crosscompile.elsewhere import Elsewhere, elsewhere
from portable.crosscompile.facts import Built, Finding, Row, Skipped, Target, Unit
from portable.crosscompile.run import Report, checked, crosscompile, failures
from portable.crosscompile.source import crosscompile_source
from portable.crosscompile.targets import DEFAULT_TARGETS, resolve

__all__ = [
    "DEFAULT_TARGETS",
    "Built",
    "Difference",
    "Elsewhere",
    "Finding",
    "Report",
    "Row",
    "Skipped",
    "Target",
    "Unit",
    "checked",
    "compare",
    "crosscompile",
    "crosscompile_source",
    "elsewhere",
    "failures",
    "resolve",
]
