"""Targets: architectures with the device of the hardware database that stands for each."""

from __future__ import annotations

from portable import hwdb, machine
from portable.crosscompile.facts import Target
from portable.errors import UnknownNameError

REPRESENTATIVE = {
    "sm_75": "nvidia-t4", "sm_80": "nvidia-a100-sxm4-80gb", "sm_86": "nvidia-a10",
    "sm_89": "nvidia-l40s", "sm_90": "nvidia-h200-sxm", "sm_100": "nvidia-b200",
    "sm_103": "nvidia-b300", "sm_120": "nvidia-rtx-5090", "gfx908": "amd-mi100",
    "gfx90a": "amd-mi250x-gcd", "gfx942": "amd-mi300x", "gfx950": "amd-mi355x",
    "gfx1100": "amd-rx-7900-xtx", "gfx1201": "amd-rx-9070-xt",
}  # fmt: skip
"""The device whose units, peaks and bandwidth judge a bare architecture."""
DEFAULT_TARGETS = (
    "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120",
    "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201",
)  # fmt: skip


def resolve(name: str) -> Target:
    """The target of an architecture ("gfx942"), of a device of the database ("MI300X") or "here".

    Raises:
        UnknownNameError: none of these; near names are listed.
        PortableError: the device here is not in the database.
    """
    plain = name.strip().lower().rstrip("af") if name.lower().startswith("sm_") else name.strip()
    if plain in REPRESENTATIVE:
        spec = hwdb.get(REPRESENTATIVE[plain])
        return Target(plain, spec.architecture, spec)
    same = [spec for spec in hwdb.all_specs() if spec.architecture == plain]
    if same:
        return Target(plain, plain, max(same, key=lambda spec: spec.units))
    try:
        spec = machine.spec_of(name) if name == "here" else hwdb.get(name)
    except UnknownNameError:
        known = {s.architecture for s in hwdb.all_specs() if s.limits and s.kind == "gpu"}
        raise UnknownNameError(
            "target", name, known, "A device of the database (`portable hw list`) works too."
        ) from None
    return Target(spec.key, spec.architecture, spec)
