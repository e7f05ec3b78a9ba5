"""Charts of what the console has noticed while it runs."""

from __future__ import annotations

import heapq

from moldau.console.charts import Chart, chart
from moldau.console.machine.onlookers import may_look
from moldau.console.page import Asked, Shown
from moldau.console.rendering import bytes_text, count_text, rate_text

NAMES_MAX = 6
MEASURED = (
    ("Produce, 99 of 100 take less", "ms", "Produce", rate_text),
    ("Fetch of consumers, 99 of 100 take less", "ms", "FetchConsumer", rate_text),
    ("Written, in bytes", "per second", "in", bytes_text),
    ("Read by consumers, in bytes", "per second", "out", bytes_text),
)
"""What brokers measure themselves, where the operator has said at which addresses they tell it."""


async def charts(asked: Asked) -> Shown:
    history = asked.link.history
    measured = await _measured(asked)
    if history is None or not history.moments:
        return {"charts": [], "topics": [], "groups": [], "seconds": None, "measured": measured}
    last = history.moments[-1]
    busy = heapq.nlargest(NAMES_MAX, last.topics.items(), key=lambda row: row[1])
    behind = heapq.nlargest(NAMES_MAX, last.groups.items(), key=lambda row: row[1])
    return {
        "charts": [
            chart("Written to all topics", "records/s", history.points("records"), rate_text),
            chart("Lag of all groups", "records", history.points("lag"), count_text),
            chart("Time in which brokers answer", "ms", history.points("answer"), rate_text),
        ],
        "topics": [
            (name, chart(name, "records/s", history.points("topic", name), rate_text))
            for name, rate in busy
            if rate > 0
        ],
        "groups": [
            (name, chart(name, "records behind", history.points("group", name), count_text))
            for name, lag in behind
            if lag > 0
        ],
        "measured": measured,
        "seconds": (last.ms - history.moments[0].ms) / 1000,
    }


async def _measured(asked: Asked) -> list[Chart]:
    watch = asked.metrics
    if not watch.addresses or not await may_look(asked):
        return []
    await watch.used()
    return [chart(title, unit, watch.points(kind), text) for title, unit, kind, text in MEASURED]
