"""Two kinds of plots as SVG text, for the report: marks in rows on a logarithmic scale, and curves.

Small files whose lines say what they draw, so that a change of a figure is a change of a line. A plot has a background
of its own and colours for light and dark surroundings. Series differ by the shape of their marks, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

WIDTH = 760
LEFT, RIGHT, TOP = 190, 110, 44
ROW = 24
HEIGHT = 300  # of the area of curves
INKS = {"ink": ("#1f2328", "#e6edf3"), "soft": ("#59636e", "#9198a1"), "paper": ("#ffffff", "#0d1117")}
RULES = ("#d8dee4", "#30363d")
#: Light and dark of each series, told apart by people who see fewer colours, too.
SERIES = (
    ("#d9480f", "#ff8c42"),
    ("#0b63b5", "#58a6ff"),
    ("#1a7f37", "#56d364"),
    ("#8250df", "#c297ff"),
    ("#57606a", "#adb5bd"),
    ("#9a6700", "#e3b341"),
)
#: Marks of size 10 around the origin, one for each series.
SHAPES = (
    "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z",
    "M-4.5,-4.5h9v9h-9z",
    "M0,-6L6,5H-6z",
    "M0,-6L6,0L0,6L-6,0z",
    "M0,6L6,-5H-6z",
    "M-6,-2h12v4h-12z",
)


def marks(title: str, unit: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """A row for every series of every group, with its value as a mark and a number; the scale is logarithmic."""
    values = [value for group in groups.values() for value in group.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    place = _scale(low, high, LEFT, WIDTH - RIGHT)
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    bottom = TOP + sum(ROW * (len(group) + 1) for group in groups.values())
    parts = [
        _line(x, TOP, x, bottom) + _text(x, bottom + 16, number(10.0**power), "soft", "middle")
        for power in range(low, high + 1)
        for x in [place(power)]
    ]
    y = float(TOP)
    for group, members in groups.items():
        y += ROW
        parts.append(_text(12, y - 6, group, "ink bold"))
        for name, value in members.items():
            y += ROW
            x = place(math.log10(value))
            parts.append(
                _text(LEFT - 12, y - 8, name, "ink", "end")
                + _line(LEFT, y - 12, x, y - 12, names.index(name))
                + _mark(x, y - 12, names.index(name))
                + _text(x + 12, y - 8, number(value), "ink")
            )
    return _picture(title, [*parts, _text(WIDTH - 12, bottom + 34, unit, "soft", "end")], bottom + 46)


def curves(
    title: str,
    x_title: str,
    y_title: str,
    series: Mapping[str, Sequence[tuple[float | str, float]]],
    *,
    log_x: bool = False,
    log_y: bool = False,
) -> str:
    """A curve for every series; places that are names stand side by side in the order in which they come."""
    series = {
        name: [point for point in points if not log_y or point[1] > 0] for name, points in series.items()
    }
    places = list(dict.fromkeys(x for points in series.values() for x, _ in points))
    are_names = any(isinstance(x, str) for x in places)
    at = [float(index) if are_names else _log(x, log_x) for index, x in enumerate(places)]
    x_of = dict(zip(places, map(_scale(min(at), max(at), 100, WIDTH - 60), at), strict=True))
    ticks = _ticks([y for points in series.values() for _, y in points], log_y)
    bottom = TOP + HEIGHT
    y_of = _scale(_log(ticks[0], log_y), _log(ticks[-1], log_y), bottom, TOP + 12)
    parts = [
        _line(80, y, WIDTH - 40, y) + _text(72, y + 4, number(tick), "soft", "end")
        for tick in ticks
        for y in [y_of(_log(tick, log_y))]
    ]
    parts += [
        _text(x, bottom + 18, x_ if isinstance(x_, str) else number(x_), "soft", "middle")
        for x_, x in x_of.items()
    ]
    for index, (name, points) in enumerate(series.items()):
        found = [(x_of[x], y_of(_log(y, log_y))) for x, y in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in found)
        parts.append(f'<polyline class="s{index}" fill="none" points="{line}"/>')
        parts += [
            _mark(x, y, index, f"{name}: {number(value)}")
            for (x, y), (_, value) in zip(found, points, strict=True)
        ]
        legend = 80 + index * (WIDTH - 120) / len(series)
        parts.append(_mark(legend + 6, bottom + 56, index) + _text(legend + 18, bottom + 60, name, "ink"))
    parts.append(_text(WIDTH - 40, bottom + 36, x_title, "soft", "end") + _text(80, TOP - 2, y_title, "soft"))
    return _picture(title, parts, bottom + 72)


def number(value: float) -> str:
    """Three digits that matter, with M for a million."""
    if value >= 999_500:
        return f"{value / 1e6:,.3g} M"
    if value >= 999.5:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def _ticks(values: Sequence[float], log: bool) -> list[float]:
    """Round numbers around the values; a linear scale begins at zero, or costs would look like cliffs."""
    if log:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return [10.0**power for power in range(low, max(high, low + 1) + 1)]
    top = max(max(values), 1e-9)
    step = 10.0 ** math.floor(math.log10(top / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if step * factor * 5 >= top)
    return [step * count for count in range(math.ceil(top / step - 1e-9) + 1)]


def _log(value: float | str, log: bool) -> float:
    return math.log10(float(value)) if log else float(value)


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """From values to places; a single value is in the middle."""
    if high == low:
        return lambda value: (start + end) / 2
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, series: int | None = None) -> str:
    kind = "rule" if series is None else f"s{series % len(SERIES)} thin"
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _mark(x: float, y: float, series: int, tip: str = "") -> str:
    title = f"<title>{escape(tip)}</title>" if tip else ""
    index = series % len(SERIES)
    return f'<path class="m{index}" transform="translate({x:.1f} {y:.1f})" d="{SHAPES[index]}">{title}</path>'


def _picture(title: str, parts: Sequence[str], height: float) -> str:
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">',
            f"<style>{_colours(0)}@media (prefers-color-scheme: dark) {{{_colours(1)}}}",
            "text {font: 13px system-ui, sans-serif} .bold {font-weight: 600}",
            "polyline, line {stroke-width: 2} .rule, .thin {stroke-width: 1}</style>",
            f'<rect class="paper" width="{WIDTH}" height="{height:.0f}" rx="8"/>',
            _text(12, 22, title, "ink bold"),
            *parts,
            "</svg>\n",
        ]
    )


def _colours(which: int) -> str:
    inks = [f".{name} {{fill: {both[which]}}}" for name, both in INKS.items()]
    series = [f".s{i} {{stroke: {c[which]}}} .m{i} {{fill: {c[which]}}}" for i, c in enumerate(SERIES)]
    return " ".join([*inks, *series, f".rule {{stroke: {RULES[which]}}}"])
