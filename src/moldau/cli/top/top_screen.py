"""How `top` draws a sample: lines of text for a terminal of some width and height, or plain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moldau.cli.top.top_sample import Sample

BESIDE_FROM = 140
"""Columns from which on panels stand side by side."""
VIEWS = ("all", "brokers", "topics", "groups", "requests")
KEYS = "q quit  a all  b brokers  t topics  g groups  r requests  j/k scroll  p pause"
NO_REQUESTS = "Name a broker's metrics.http.listener with --metrics to see its requests."
BOLD, DIM, RED, REVERSE = "1", "2", "31", "7"


class Panel(NamedTuple):
    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    alarming: tuple[bool, ...] = ()
    empty: str = "none"


class Look(NamedTuple):
    """What the person in front of the screen has chosen."""

    view: str = "all"
    first: int = 0
    """The row that is shown at the top of a panel that fills the screen."""
    is_paused: bool = False


def panels(sample: Sample) -> dict[str, Panel]:
    return {
        "brokers": Panel(
            "BROKERS",
            ("ID", "ADDRESS", "LEADS", ""),
            [
                (str(b.broker), b.address, str(b.leads), "controller" if b.controller else "")
                for b in sample.brokers
            ],
        ),
        "topics": Panel(
            "TOPICS",
            ("TOPIC", "REC/S", "RECORDS", "PART", "OUT OF SYNC"),
            [
                (
                    t.topic,
                    f"{t.per_second:.1f}",
                    str(t.records),
                    str(t.partitions),
                    str(t.under_replicated or ""),
                )
                for t in sample.topics
            ],
            tuple(t.under_replicated > 0 for t in sample.topics),
        ),
        "groups": Panel(
            "GROUPS",
            ("GROUP", "LAG", "REC/S", "BEHIND", "STATE"),
            [
                (g.group, str(g.lag), f"{g.per_second:.1f}", behind(g.seconds_behind), g.state)
                for g in sample.groups
            ],
            tuple(g.lag > 0 and not g.per_second for g in sample.groups),
        ),
        "requests": Panel(
            "SLOW REQUESTS",
            ("REQUEST", "P99 MS", "P50 MS", "P99.9 MS", "REQ/S"),
            [
                (
                    r.request,
                    f"{r.p99_ms:.1f}",
                    f"{r.p50_ms:.1f}",
                    f"{r.p999_ms:.1f}",
                    f"{r.per_second:.1f}",
                )
                for r in sample.requests
            ],
            empty=NO_REQUESTS,
        ),
    }


def behind(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f} s"


def plain(sample: Sample) -> list[str]:
    """Everything, once, for a pipe."""
    lines = [f"cluster {sample.cluster_id}"]
    for panel in panels(sample).values():
        lines += ["", *drawn(panel, 10_000, len(panel.rows) + 2, has_colours=False)]
    return lines


def screen(
    sample: Sample, chosen: Look, width: int, height: int, *, has_colours: bool
) -> list[str]:
    """Never more lines than the screen has, and none wider than it."""
    found = panels(sample)
    state = "paused" if chosen.is_paused else "live"
    title = painted(
        fitted(f"moldau top  {sample.cluster_id}  {state}", width), REVERSE, has_colours
    )
    room = height - 2
    if chosen.view != "all":
        panel = found[chosen.view]
        body = drawn(panel, width, room, has_colours=has_colours, first=chosen.first)
    elif width >= BESIDE_FROM:
        body = beside(found, width, room, has_colours)
    else:
        body = stacked(list(found.values()), width, room, has_colours)
    body += [""] * (room - len(body))
    return [title, *body, painted(fitted(KEYS, width), DIM, has_colours)]


def beside(found: dict[str, Panel], width: int, room: int, has_colours: bool) -> list[str]:
    half = (width - 3) // 2
    left = stacked([found["brokers"], found["topics"]], half, room, has_colours)
    right = stacked([found["groups"], found["requests"]], half, room, has_colours)
    count = max(len(left), len(right))
    pairs = zip(padded(left, count), padded(right, count), strict=True)
    return [f"{one}{' ' * (half - shown_width(one))} │ {other}" for one, other in pairs]


def padded(lines: list[str], count: int) -> list[str]:
    return lines + [""] * (count - len(lines))


def stacked(some: Sequence[Panel], width: int, room: int, has_colours: bool) -> list[str]:
    """Each gets what it needs, the first ones no more than their share."""
    lines: list[str] = []
    for index, panel in enumerate(some):
        share = (room - len(lines)) // (len(some) - index)
        needed = max(len(panel.rows), 1) + 3
        lines += drawn(panel, width, min(share, needed) - 1, has_colours=has_colours)
        lines.append("")
    return lines[:room]


def drawn(panel: Panel, width: int, room: int, *, has_colours: bool, first: int = 0) -> list[str]:
    """Title, header and as many rows as there is room for."""
    first = max(0, min(first, len(panel.rows) - 1))
    shown = panel.rows[first : first + max(0, room - 2)]
    count = f"{panel.title} ({len(panel.rows)})"
    lines = [painted(fitted(count, width), BOLD, has_colours)]
    if not panel.rows:
        return [*lines, fitted(f"  {panel.empty}", width)][:room]
    widths = [
        max(len(title), *(len(row[column]) for row in shown or panel.rows[:1]))
        for column, title in enumerate(panel.header)
    ]
    spare = width - sum(widths) - 2 * len(widths)
    if spare < 0:
        widths[0] = max(8, widths[0] + spare)
    lines.append(painted(joined(panel.header, widths, width), DIM, has_colours))
    for index, row in enumerate(shown, start=first):
        is_alarming = bool(panel.alarming) and panel.alarming[index]
        text = joined(row, widths, width)
        lines.append(painted(text, RED, has_colours) if is_alarming else text)
    return lines[:room]


def joined(cells: Sequence[str], widths: Sequence[int], width: int) -> str:
    """The first column stands left, numbers stand right."""
    texts = [fitted(cells[0], widths[0]).ljust(widths[0])]
    for cell, each in zip(cells[1:], widths[1:], strict=True):
        is_number = cell.replace(".", "").replace(" s", "").isdigit()
        texts.append(cell.rjust(each) if is_number else cell.ljust(each))
    return fitted("  " + "  ".join(texts).rstrip(), width)


def fitted(text: str, width: int) -> str:
    """What does not fit is cut; a name must not command the terminal."""
    quiet = text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
    return quiet if len(quiet) <= width else quiet[: max(0, width - 1)] + "…"


def painted(text: str, colour: str, has_colours: bool) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if has_colours else text


def shown_width(text: str) -> int:
    """Without what only colours it."""
    length, rest = 0, text
    while "\x1b[" in rest:
        before, _, rest = rest.partition("\x1b[")
        length += len(before)
        rest = rest.partition("m")[2]
    return length + len(rest)
