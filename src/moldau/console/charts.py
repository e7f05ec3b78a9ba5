"""Curves as SVG, made on the server: no library. A table beside them says the same in numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from moldau.console.rendering import duration_text

WIDTH, HEIGHT = 640.0, 165.0
LEFT, TOP, BOTTOM = 60.0, 18.0, 30.0
ROWS_MAX = 12


class Point(NamedTuple):
    ms: float
    value: float | None
    """None where nothing was known: the curve has a gap there."""


class Row(NamedTuple):
    ms: float
    value: float | None
    text: str


class Chart(NamedTuple):
    title: str
    unit: str
    svg: Markup
    rows: tuple[Row, ...]
    """Some of the points, evenly spread, for the table."""
    last: float | None
    last_text: str


def chart(
    title: str, unit: str, points: Sequence[Point], text: Callable[[float | None], str]
) -> Chart:
    known = [point for point in points if point.value is not None]
    last = known[-1].value if known else None
    step = max(1, -(-len(known) // ROWS_MAX))
    rows = tuple(Row(ms, value, text(value)) for ms, value in known[::-1][::step])
    return Chart(title, unit, _svg(title, unit, points, known, text), rows, last, text(last))


def nice_top(value: float) -> float:
    """The next of 1, 2, 5, 10 … that is not below."""
    if value <= 0:
        return 1.0
    size = 1.0
    while size < value:
        size *= 10
    while size / 10 >= value:
        size /= 10
    return next(size * part for part in (0.1, 0.2, 0.5, 1.0) if size * part >= value)


def _marks(top: float, text: Callable[[float | None], str]) -> tuple[float, ...]:
    """Where lines are drawn; not in the middle if its number would read like another's."""
    is_own = text(top / 2) not in (text(0.0), text(top))
    return (0.0, top / 2, top) if is_own else (0.0, top)


def _svg(
    title: str,
    unit: str,
    points: Sequence[Point],
    known: Sequence[Point],
    text: Callable[[float | None], str],
) -> Markup:
    if len(known) < 2:
        return Markup("")
    first, last = points[0].ms, points[-1].ms
    top = nice_top(max(point.value or 0.0 for point in known))
    span = max(last - first, 1.0)

    def x(ms: float) -> float:
        return LEFT + (ms - first) / span * (WIDTH - LEFT - 4)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP)

    lines, areas, run = [], [], list[str]()
    for point in (*points, Point(last, None)):
        if point.value is not None:
            run.append(f"{x(point.ms):.1f},{y(point.value):.1f}")
        elif run:
            lines.append(f'<polyline class="curve" points="{" ".join(run)}"/>')
            first_x, last_x = run[0].partition(",")[0], run[-1].partition(",")[0]
            corners = f"{first_x},{y(0):.1f} {' '.join(run)} {last_x},{y(0):.1f}"
            areas.append(f'<polygon class="area" points="{corners}"/>')
            run = []
    low = min(point.value or 0.0 for point in known)
    high = max(point.value or 0.0 for point in known)
    told = f"From {text(low)} to {text(high)} {unit}, now {text(known[-1].value)} {unit}."
    grid = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 4}" y1="{y(v):.1f}" y2="{y(v):.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{escape(text(v))}</text>'
        for v in _marks(top, text)
    )
    ago = duration_text(span / 1000)
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img"'
        f' aria-label="{escape(title)}: {escape(told)}">'
        f"{grid}{''.join(areas)}{''.join(lines)}"
        f'<text x="{LEFT}" y="{HEIGHT - 5}">{ago} ago</text>'
        f'<text x="{WIDTH - 4}" y="{HEIGHT - 5}" text-anchor="end">now</text></svg>'
    )
