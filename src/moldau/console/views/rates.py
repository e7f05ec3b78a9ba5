"""Charts of what the console has noticed while it runs."""

from __future__ import annotations

import heapq

from moldau.console.charts import chart
from moldau.console.page import Asked, Shown
from moldau.console.rendering import count_text, rate_text

NAMES_MAX = 6


async def charts(asked: Asked) -> Shown:
    history = asked.link.history
    if history is None or not history.moments:
        return {"charts": [], "topics": [], "groups": [], "seconds": None}
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
        "seconds": (last.ms - history.moments[0].ms) / 1000,
    }
