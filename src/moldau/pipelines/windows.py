"""Windows over event time, with grace for late records; aggregated by plain DataFrame code.

    words = lines.select("timestamp", explode(split(string("value"), " ")).alias("word"))
    counts = windows.tumbling(words, "10 seconds", grace="5 seconds").groupBy("word").count()

The result has the columns `window` (start and end) and those grouped by. A record that comes later
than the newest one seen minus the grace is left out. Time is the record's own (`timestamp`, which
is the broker's where the topic says LogAppendTime), any other column, or PROCESSING.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from moldau.pipelines.formats.column_codecs import to_long

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData

PROCESSING = "processing"
"""The time at which Spark runs the batch, in place of a column."""
PROCESSING_COLUMN = "processing_time"
NO_GRACE = "0 seconds"


class Windowed:
    """A frame whose rows have windows; what `groupBy` gives is Spark's own."""

    def __init__(self, frame: DataFrame, window: Column) -> None:
        self.frame = frame
        self._window = window

    def groupBy(self, *columns: Any) -> GroupedData:
        return self.frame.groupBy(self._window.alias("window"), *columns)


def tumbling(
    frame: DataFrame, size: str, *, grace: str = NO_GRACE, time: str = "timestamp"
) -> Windowed:
    """Windows of one size, one after the other."""
    timed, column = _timed(frame, grace, time)
    return Windowed(timed, F.window(column, size))


def hopping(
    frame: DataFrame, size: str, advance: str, *, grace: str = NO_GRACE, time: str = "timestamp"
) -> Windowed:
    """Windows of one size that start every `advance`, so that a record is in several."""
    timed, column = _timed(frame, grace, time)
    return Windowed(timed, F.window(column, size, advance))


def session(
    frame: DataFrame, gap: str, *, grace: str = NO_GRACE, time: str = "timestamp"
) -> Windowed:
    """A window for each burst of a key: it ends when nothing came for `gap`. What a session counts
    is known when it has ended, so such a query writes only final results (append)."""
    timed, column = _timed(frame, grace, time)
    return Windowed(timed, F.session_window(column, gap))


def key_text(key: str | Column, window: str | Column = "window") -> Column:
    """A key that people can read: [word@start/end], in milliseconds."""
    start, end = _edges(window)
    return F.concat(
        F.lit("["), _column(key).cast("string"), F.lit("@"), start, F.lit("/"), end, F.lit("]")
    )


def key_bytes(key: str | Column, window: str | Column = "window") -> Column:
    """The key as Java's TimeWindowedSerializer writes it: its bytes, then the window's start."""
    start, _ = _edges(window)
    return F.concat(_column(key).cast("string").cast("binary"), to_long(start))


def session_key_bytes(key: str | Column, window: str | Column = "window") -> Column:
    """The key as Java's SessionWindowedSerializer writes it: its bytes, then end and start."""
    start, end = _edges(window)
    text = _column(key).cast("string").cast("binary")
    return F.concat(text, to_long(end), to_long(start))


def _timed(frame: DataFrame, grace: str, time: str) -> tuple[DataFrame, str]:
    if time == PROCESSING:
        # Nothing is ever late by the clock on the wall.
        stamped = frame.withColumn(PROCESSING_COLUMN, F.current_timestamp())
        return stamped.withWatermark(PROCESSING_COLUMN, NO_GRACE), PROCESSING_COLUMN
    return frame.withWatermark(time, grace), time


def _edges(window: str | Column) -> tuple[Column, Column]:
    column = _column(window)
    return F.unix_millis(column["start"]), F.unix_millis(column["end"])


def _column(column: str | Column) -> Column:
    return F.col(column) if isinstance(column, str) else column
