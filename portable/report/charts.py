"""Charts as SVG text: drawn here, styled by the page, readable without a script."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from portable.report.attribution import STEPS
from portable.report.places import Place
from portable.report.portability import Study
from portable.report.ranking import Total
from portable.report.rows import Row
from portable.text import rate_text, share, time_text

MAX_POINTS = 1500
"""Points of one roofline chart; of more, those that take the most time are drawn."""
WIDTH, HEIGHT = 760.0, 440.0
LEFT, RIGHT, TOP, BOTTOM = 96.0, 16.0, 14.0, 48.0

LABEL_WIDTH = 300.0
"""Room that the name of a roof needs at the most."""

SHAPES = ("circle", "square", "diamond", "up", "down", "plus", "cross", "star")


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with what a caption has to say.

    Attributes:
        svg: the drawing.
        shown, total: points drawn and points there are.
        left_out: rows without arithmetic, which have no place on a roofline.
    """

    svg: str
    shown: int
    total: int
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Log:
    """A logarithmic axis from values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        span = math.log10(self.high / self.low)
        part = math.log10(max(value, self.low * 1e-6) / self.low) / span
        return self.start + part * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Powers of ten inside."""
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        step = max(1, (last - first) // 7)
        return [10.0**e for e in range(first, last + 1, step)]


def roofline(place: Place, rows: Iterable[Row], slots: Mapping[str, int]) -> Chart | None:
    """Intensity against FLOP/s of every correct headline row of a device; None without points.

    Args:
        place: the device; its datasheet roofs are solid, its measured roofs dashed.
        rows: of the report.
        slots: colour and shape of each candidate.
    """
    here = [r for r in rows if r.place is place and r.headline and r.ok and r.cost is not None]
    points = [r for r in here if r.cost and r.cost.flops > 0 and r.cost.bytes > 0]
    if not points:
        return None
    drawn = sorted(points, key=lambda r: -(r.time or 0.0))[:MAX_POINTS]
    roofs = _roofs(place, points)
    x, y = _axes(drawn, roofs)
    body = [_grid(x, y, "arithmetic intensity [FLOP/B]", "FLOP/s")]
    body += [_roof(roof, x, y) for roof in roofs]
    body += _roof_labels(roofs, x, y)
    body += [_point(r, x, y, slots.get(r.candidate, 0)) for r in drawn]
    title = f"Roofline of {place.label}"
    svg = _svg("".join(body), title, f"{len(drawn)} points; the same numbers are in the table "
               "of all facts", "roofline")  # fmt: skip
    return Chart(svg, len(drawn), len(points), len(here) - len(points))


@dataclass(frozen=True, slots=True)
class _Roof:
    name: str
    peak: float
    bandwidth: float
    measured: bool


def _roofs(place: Place, rows: Sequence[Row]) -> list[_Roof]:
    used = sorted({r.sol.way for r in rows if r.sol is not None and r.sol.way})
    reached = sorted({r.roof.way for r in rows if r.roof is not None and r.roof.way})
    found: list[_Roof] = []
    if place.spec is not None and place.spec.bandwidth > 0:
        spec = place.spec
        found += [_Roof(way, spec.peaks[way], spec.bandwidth, False) for way in used]
    if place.roofs is not None:
        rates = place.roofs.compute
        ways = [way for way in reached if way in rates]
        found += [_Roof(way, rates[way], place.roofs.dram, True) for way in ways]
    return found


def _axes(rows: Sequence[Row], roofs: Sequence[_Roof]) -> tuple[Log, Log]:
    xs = [r.cost.intensity for r in rows if r.cost]
    ys = [r.cost.flops / r.time for r in rows if r.cost and r.time]
    xs += [roof.peak / roof.bandwidth for roof in roofs]
    top = max([*ys, *(roof.peak for roof in roofs)]) * 2
    bottom = min(ys) / 2
    x = Log(min(xs) / 2, max(xs) * 3, LEFT, WIDTH - RIGHT)
    return x, Log(bottom, max(top, bottom * 100), HEIGHT - BOTTOM, TOP)


def _grid(x: Log, y: Log, x_name: str, y_unit: str) -> str:
    lines = []
    for tick in x.ticks():
        at = f"{x(tick):.1f}"
        lines.append(f'<path class="grid" d="M{at} {TOP}V{HEIGHT - BOTTOM}"/>')
        lines.append(f'<text class="tick" x="{at}" y="{HEIGHT - BOTTOM + 18}" '
                     f'text-anchor="middle">{_power(tick)}</text>')  # fmt: skip
    for tick in y.ticks():
        at = f"{y(tick):.1f}"
        lines.append(f'<path class="grid" d="M{LEFT} {at}H{WIDTH - RIGHT}"/>')
        lines.append(f'<text class="tick" x="{LEFT - 6}" y="{at}" text-anchor="end" '
                     f'dominant-baseline="middle">{rate_text(tick, y_unit)}</text>')  # fmt: skip
    lines.append(f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" '
                 f'text-anchor="middle">{x_name}</text>')  # fmt: skip
    return "".join(lines)


def _power(value: float) -> str:
    return f"{value:g}" if 1e-3 <= value < 1e5 else f"1e{math.log10(value):.0f}"


def _roof(roof: _Roof, x: Log, y: Log) -> str:
    ridge = roof.peak / roof.bandwidth
    left = (x.low, x.low * roof.bandwidth)
    if left[1] < y.low:
        left = (y.low / roof.bandwidth, y.low)
    kind = "measured" if roof.measured else "datasheet"
    path = f"M{x(left[0]):.1f} {y(left[1]):.1f}L{x(ridge):.1f} {y(roof.peak):.1f}H{WIDTH - RIGHT}"
    return f'<path class="roof {kind}" d="{path}"/>'


def _roof_labels(roofs: Sequence[_Roof], x: Log, y: Log) -> list[str]:
    """Names beside the flat parts: above those of the datasheet, below the measured ones."""
    right = WIDTH - RIGHT - 4
    # Points crowd below the roofs at the right end; measured roofs are named where they begin.
    ridges = [x(roof.peak / roof.bandwidth) for roof in roofs if roof.measured]
    left = max(ridges, default=right) + 6
    names, ends = {}, {}
    for index, roof in enumerate(roofs):
        kind = "measured" if roof.measured else "datasheet"
        names[str(index)] = f"{roof.name} {rate_text(roof.peak, 'FLOP/s')} ({kind})"
        inside = roof.measured and left + LABEL_WIDTH < right
        at = y(roof.peak) + (9 if roof.measured else -9)
        ends[str(index)] = (left if inside else right, at)
    heights = _apart(ends, HEIGHT - BOTTOM)
    return [
        f'<text class="rooflabel" x="{ends[key][0]:.1f}" y="{heights[key]:.1f}" '
        f'text-anchor="{"start" if ends[key][0] == left else "end"}">{escape(name)}</text>'
        for key, name in names.items()
    ]


def _point(row: Row, x: Log, y: Log, slot: int) -> str:
    assert row.cost is not None and row.time is not None
    at = (x(row.cost.intensity), y(row.cost.flops / row.time))
    chosen = " chosen" if row.chosen else ""
    return (
        f'<path class="pt c{slot % 8}{chosen}" d="{marker(slot, *at)}" '
        f'data-q="{escape(row.label)}"><title>{escape(tip(row))}</title></path>'
    )


def tip(row: Row) -> str:
    """What hovering over a point says: shape, times, gap."""
    text = f"{row.problem.op} {row.label}\n{row.candidate}: {time_text(row.time or 0.0)}"
    if row.cost is not None and row.time:
        text += f" = {rate_text(row.cost.flops / row.time, 'FLOP/s')}"
    if row.sol is not None and row.sol_fraction is not None:
        about = "≈" if row.sol.estimated else ""
        text += f"\n{about}{share(row.sol_fraction)} of T_SOL {time_text(row.sol.time)}"
        text += f" ({row.sol.bound_by} binds)"
    if row.roof_fraction is not None and row.roof is not None:
        text += f"\n{share(row.roof_fraction)} of the measured roof {time_text(row.roof.time)}"
    if row.gap_best is not None:
        text += "\nthe fastest" if row.gap_best == 1 else (
            f"\n{row.gap_best:.2f} times {row.best_name}"
        )  # fmt: skip
    return text + ("\nchosen by the selector" if row.chosen else "")


def marker(slot: int, x: float, y: float, r: float = 4.5) -> str:
    """The outline of a candidate's marker."""
    shape = SHAPES[slot % len(SHAPES)]
    x, y = round(x, 1), round(y, 1)
    if shape == "circle":
        return f"M{x - r} {y}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z"
    outlines: dict[str, list[tuple[float, float]]] = {
        "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
        "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
        "up": [(0, -1.2), (1.2, 1), (-1.2, 1)],
        "down": [(0, 1.2), (1.2, -1), (-1.2, -1)],
        "plus": [(-.4, -1.2), (.4, -1.2), (.4, -.4), (1.2, -.4), (1.2, .4), (.4, .4), (.4, 1.2),
                 (-.4, 1.2), (-.4, .4), (-1.2, .4), (-1.2, -.4), (-.4, -.4)],
        "cross": [(-1.1, -1.1), (-.4, -1.1), (0, -.5), (.4, -1.1), (1.1, -1.1), (.5, 0),
                  (1.1, 1.1), (.4, 1.1), (0, .5), (-.4, 1.1), (-1.1, 1.1), (-.5, 0)],
        "star": [(0, -1.4), (.4, -.4), (1.4, 0), (.4, .4), (0, 1.4), (-.4, .4), (-1.4, 0),
                 (-.4, -.4)],
    }  # fmt: skip
    corners = (f"{x + dx * r:.1f} {y + dy * r:.1f}" for dx, dy in outlines[shape])
    return "M" + "L".join(corners) + "z"


def swatch(slot: int) -> str:
    """A candidate's marker for a legend."""
    return (
        f'<svg class="swatch" viewBox="0 0 14 14" aria-hidden="true">'
        f'<path class="pt c{slot % 8}" d="{marker(slot, 7, 7)}"/></svg>'
    )


def waterfall(total: Total) -> list[tuple[int, str, float, float, str]]:
    """Bars from the speed of light to the measured time: (step, name, start %, width %, text)."""
    whole, at = total.time or 1.0, 0.0
    bars = []
    for index, name in enumerate(STEPS):
        time = total.steps[name]
        if time > 0 or name != "unexplained":
            text = _amount(name, time, whole, total)
            bars.append((index, name, 100 * at / whole, 100 * time / whole, text))
        at += time
    return bars


def _amount(name: str, time: float, whole: float, total: Total) -> str:
    if name in total.unknown:
        return "not measured: inside another step"
    return f"{time_text(time)} · {share(time / whole)}" if time > 0 else "0"


def cascade(study: Study) -> str | None:
    """Efficiency and PP over the first n platforms, best first; None with fewer than two."""
    results = [r for r in study.results if not r.scope and r.cascade]
    count = len(study.platforms)
    if count < 2 or not results:
        return None
    height, end = 320.0, WIDTH - 150
    step = (end - LEFT) / (count - 1)

    def at(n: int, value: float) -> tuple[float, float]:
        return LEFT + n * step, TOP + (1 - value) * (height - TOP - BOTTOM)

    body = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = at(0, tick)[1]
        body.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{end}"/><text class="tick" '
                    f'x="{LEFT - 6}" y="{y:.1f}" text-anchor="end" dominant-baseline="middle">'
                    f"{tick:.0%}</text>")  # fmt: skip
    for n in range(count):
        body.append(f'<text class="tick" x="{LEFT + n * step:.1f}" y="{height - BOTTOM + 18}" '
                    f'text-anchor="middle">{n + 1}</text>')  # fmt: skip
    body.append(f'<text class="axis" x="{(LEFT + end) / 2}" y="{height - 8}" '
                f'text-anchor="middle">platforms, the most efficient first</text>')  # fmt: skip
    ends = {r.application: at(len(r.cascade) - 1, r.cascade[-1][1]) for r in results}
    labels = _apart(ends, height - BOTTOM)
    for slot, result in enumerate(results):
        name = result.application
        body.append(_cascade_line(name, result.cascade, slot, at, labels[name]))
    names = ", ".join(study.platforms)
    return _svg(
        "".join(body), "Cascade of application efficiency", f"H: {names}", "cascade", height
    )


def _apart(
    ends: Mapping[str, tuple[float, float]], bottom: float, least: float = 14.0
) -> dict[str, float]:
    """Heights of labels beside line ends, moved until none lies on another or below the axis."""
    found: dict[str, float] = {}
    columns: dict[float, list[str]] = {}
    for name, (x, _) in sorted(ends.items(), key=lambda item: item[1][1]):
        columns.setdefault(x, []).append(name)
    for names in columns.values():
        at = -math.inf
        for name in names:
            found[name] = at = max(ends[name][1] + 4, at + least)
        at = bottom - 3 + least
        for name in reversed(names):
            found[name] = at = min(found[name], at - least)
    return found


def _cascade_line(
    name: str,
    steps: Sequence[tuple[str, float, float]],
    slot: int,
    at: Callable[[int, float], tuple[float, float]],
    label: float,
) -> str:
    points = [at(n, e) for n, (_, e, _) in enumerate(steps)]
    means = [at(n, pp) for n, (_, _, pp) in enumerate(steps)]
    said = "; ".join(f"{p} {share(e)}" for p, e, _ in steps)
    dots = "".join(f'<path class="pt c{slot % 8}" d="{marker(slot, *p)}"/>' for p in points)
    return (
        f"<g><title>{escape(f'{name}: {said}')}</title>"
        f'<path class="line c{slot % 8}" d="{_polyline(points)}"/>'
        f'<path class="line dashed c{slot % 8}" d="{_polyline(means)}"/>{dots}'
        f'<text class="rooflabel" x="{points[-1][0] + 10:.1f}" y="{label:.1f}">'
        f"{escape(name)}</text></g>"
    )


def _polyline(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _svg(body: str, title: str, about: str, kind: str, height: float = HEIGHT) -> str:
    return (
        f'<svg class="chart {kind}" viewBox="0 0 {WIDTH:g} {height:g}" role="img" tabindex="0" '
        f'aria-label="{escape(title)}. {escape(about)}">{body}</svg>'
    )
