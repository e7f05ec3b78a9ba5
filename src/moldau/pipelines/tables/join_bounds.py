"""How long a join keeps its rows: the spans that users write, and joins that have no span at all.

`joins` reads its durations here. `Kafka.to` looks at what it is given: an inner join of two streams
in plain Spark needs no bound to run, and then keeps every row of both sides for ever.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moldau.pipelines.sink.sink_options import SinkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("moldau.pipelines.joins")

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_UNITS_MS = {
    "us": 0.001,
    **dict.fromkeys(("", "ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("week", "weeks"), 7 * 86_400_000),
}
ANY_TIME_MS = 1 << 40
"""A watermark to try conditions on; Java takes it for a long because it is too large for an int."""


def duration_ms(name: str, text: str) -> int:
    """`1h`, `10 minutes`, `1 hour 30 minutes`, in milliseconds."""
    given = str(text).lower()
    parts = _PART.findall(given)
    if not parts or _PART.sub("", given).strip() or any(u not in _UNITS_MS for _, u in parts):
        raise SinkError(
            f"{name} cannot be {text!r}: write for instance 500ms, 10 seconds, 15 minutes or 1h"
        )
    return sum(int(float(number) * _UNITS_MS[unit]) for number, unit in parts)


def warn_of_unbounded_joins(frame: DataFrame, app: str) -> int:
    """One line in the log for each join of two streams whose rows Spark can never drop."""
    jvm: Any = frame.sparkSession._jvm
    found = 0
    for join in _stream_joins(frame._jdf.queryExecution().analyzed()):
        if _is_bounded(jvm, join):
            continue
        found += 1
        log.warning(
            "%s joins two streams without a bound in time, so their state keeps every row of both "
            "for ever: use joins.join_streams(left, right, within=...), or give both sides a "
            "watermark and the condition a range of time",
            app,
        )
    return found


def _stream_joins(plan: Any) -> Iterator[Any]:
    if not plan.isStreaming():
        return
    children = plan.children()
    below = [children.apply(index) for index in range(children.size())]
    if plan.getClass().getSimpleName() == "Join" and all(each.isStreaming() for each in below):
        yield plan
    for each in below:
        yield from _stream_joins(each)


def _is_bounded(jvm: Any, join: Any) -> bool:
    """Spark's own judgement: a watermark among the keys, or a range of time for both sides."""
    helper = jvm.org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper
    if helper.isWatermarkInJoinKeys(join):
        return True
    left, right = join.left().outputSet(), join.right().outputSet()
    some_time = jvm.scala.Some(ANY_TIME_MS)
    return all(
        helper.getStateValueWatermark(one, other, join.condition(), some_time).isDefined()
        for one, other in ((left, right), (right, left))
    )
