"""A roofline as a small SVG: memory slope, one roof per dtype, ridge points marked."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

from portable.device import DeviceSpec

Place = Callable[[float, float], tuple[float, float]]
_WIDTH, _HEIGHT = 460, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 118, 26, 34
_SHOWN = (
    ("float4_e2m1fn/matrix", "f4 matrix", "#7b3294"),
    ("float8_e4m3fn/matrix", "f8 matrix", "#0571b0"),
    ("int8/matrix", "i8 matrix", "#999999"),
    ("int8/vector", "i8 vector", "#999999"),
    ("bfloat16/matrix", "bf16 matrix", "#008837"),
    ("float16/matrix", "f16 matrix", "#008837"),
    ("tfloat32/matrix", "tf32 matrix", "#e6a000"),
    ("bfloat16/vector", "bf16 vector", "#66a61e"),
    ("float32/vector", "f32 vector", "#ca0020"),
    ("float64/vector", "f64 vector", "#333333"),
)  # fmt: skip


def roofline_svg(spec: DeviceSpec) -> str:
    """Attainable FLOP/s over FLOP/B, both logarithmic, from peaks and bandwidth of the entry."""
    roofs = _roofs(spec)
    ridges = [peak / spec.bandwidth for peak, _, _ in roofs]
    x0 = math.floor(math.log10(min(ridges))) - 1
    x1 = math.ceil(math.log10(max(ridges))) + 1
    y1 = math.log10(max(peak for peak, _, _ in roofs)) + 0.25
    y0 = math.log10(spec.bandwidth) + x0

    def at(intensity: float, rate: float) -> tuple[float, float]:
        fx = (math.log10(intensity) - x0) / (x1 - x0)
        fy = (math.log10(rate) - y0) / (y1 - y0)
        return (
            _LEFT + fx * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - fy * (_HEIGHT - _TOP - _BOTTOM),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="10">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="15" font-size="12">{escape(spec.name)}: '
        f"{spec.bandwidth / 1e9:g} GB/s</text>",
        *_axes(x0, x1, y0, y1, at),
    ]
    used: list[float] = []
    for peak, label, colour in roofs:
        ridge = peak / spec.bandwidth
        (xr, yr), (xe, _) = at(ridge, peak), at(10**x1, peak)
        ylabel = _free(yr, used)
        parts += [
            f'<path d="M{xr:.1f} {yr:.1f}H{xe:.1f}" stroke="{colour}" fill="none"/>',
            f'<circle cx="{xr:.1f}" cy="{yr:.1f}" r="2.5" fill="{colour}"/>',
            f'<text x="{xe + 3:.1f}" y="{ylabel + 3:.1f}" fill="{colour}">{label} '
            f"{peak / 1e12:.4g} T</text>",
        ]
    (xa, ya), (xb, yb) = at(10**x0, spec.bandwidth * 10**x0), at(max(ridges), roofs[0][0])
    parts.append(f'<path d="M{xa:.1f} {ya:.1f}L{xb:.1f} {yb:.1f}" stroke="#555" fill="none"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _roofs(spec: DeviceSpec) -> list[tuple[float, str, str]]:
    """Peak, label and colour of what is drawn, highest first; equal peaks share one line."""
    found: dict[float, tuple[str, str]] = {}
    for kind, label, colour in _SHOWN:
        peak = spec.peaks.get(kind)
        if peak and peak not in found:
            found[peak] = (label, colour)
    if not found:  # formats that no other part has
        found = {v: (k.replace("/", " "), "#008837") for k, v in spec.peaks.items()}
    return [(peak, *found[peak]) for peak in sorted(found, reverse=True)]


def _axes(x0: float, x1: float, y0: float, y1: float, place: Place) -> list[str]:
    left, bottom = place(10**x0, 10**y0)
    right, top = place(10**x1, 10**y1)
    lines = [
        f'<path d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}" stroke="#333" fill="none"/>'
    ]
    for power in range(math.ceil(x0), math.floor(x1) + 1):
        x, _ = place(10**power, 10**y0)
        lines.append(_text(x, bottom + 13, "middle", f"{10.0**power:g}"))
    for power in range(math.ceil(y0), math.floor(y1) + 1):
        _, y = place(10**x0, 10**power)
        lines.append(_text(left - 4, y + 3, "end", _si(power)))
    lines.append(_text((left + right) / 2, bottom + 27, "middle", "FLOP/B"))
    return lines


def _text(x: float, y: float, anchor: str, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def _si(power: int) -> str:
    step = power // 3
    return f"{10 ** (power - 3 * step)}{'kMGTPE'[step - 1]}" if 1 <= step <= 6 else f"1e{power}"


def _free(y: float, used: list[float]) -> float:
    """The nearest height below that no other label takes."""
    while any(abs(y - other) < 10 for other in used):
        y += 1
    used.append(y)
    return y
