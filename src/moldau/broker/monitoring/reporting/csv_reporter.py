"""Kafka's CSV reporter: a file for each metric, a line for each look at it.

Columns are those that com.yammer.metrics writes. Files that were left by an earlier run are written
anew; no other file of the directory is touched. A file that is full becomes `.1`, and there is a
limit for how many files are written.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from typing import TextIO

from moldau.metrics.reporting.measurements import Measurement, MetricsReporter

FILES_MAX = 2_000
FILE_BYTES_MAX = 10 * 1024 * 1024
NAME_LENGTH_MAX = 200
METER = "# time,count,1 min rate,mean rate,5 min rate,15 min rate"
COUNTER = "# time,count"
GAUGE = "# time,value"
TIMES = "# time,min,max,mean,median,stddev,95%,99%,99.9%"
UNKNOWN = "NaN"
"""Stands for what is not known here: least, greatest, mean, deviation."""

_NO_NAME = re.compile(r"[^\w.\-]+", re.ASCII)


class CsvReporter(MetricsReporter):
    def __init__(self, directory: str) -> None:
        """Raises OSError if the directory cannot be made."""
        os.makedirs(directory, exist_ok=True)
        self._directory = directory
        self._begun = time.monotonic()
        self._sizes: dict[str, int] = {}
        """Of the files that were begun in this run."""
        self._names: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        self._taken: set[str] = set()

    def report(self, at_ms: int, measurements: Sequence[Measurement]) -> None:
        seconds = int(time.monotonic() - self._begun)
        left_out = 0
        for each in measurements:
            name = self._name_of(each)
            if name is None:
                left_out += 1
                continue
            header, row = _row(each)
            self._write(name, header, f"{seconds},{row}\n")
        if left_out:
            raise RuntimeError(f"{left_out} metrics have no file: {FILES_MAX} are open to write")

    def _name_of(self, each: Measurement) -> str | None:
        key = (each.mbean, each.tags)
        name = self._names.get(key)
        if name is None and len(self._names) < FILES_MAX:
            name = self._names[key] = self._free_name(each)
        return name

    def _free_name(self, each: Measurement) -> str:
        """The MBean's own name, and the tags; the type too if another metric has that name."""
        short = re.split(r",name=|/", each.mbean)[-1]
        tags = "".join(f".{key}.{value}" for key, value in each.tags)
        long = each.mbean.replace("type=", "").replace(",name=", ".")
        for stem in (short, long, *(f"{long}.{number}" for number in range(FILES_MAX + 1))):
            name = _NO_NAME.sub("_", f"{stem}{tags}")[:NAME_LENGTH_MAX].lstrip(".") + ".csv"
            if name.lower() not in self._taken:
                self._taken.add(name.lower())
                return name
        raise AssertionError("there are more numbers than files")

    def _write(self, name: str, header: str, row: str) -> None:
        path = os.path.join(self._directory, name)
        size = self._sizes.get(name, 0)
        if size + len(row) > FILE_BYTES_MAX:
            os.replace(path, path + ".1")
            size = 0
        file: TextIO
        with open(path, "a" if size else "w") as file:
            text = row if size else f"{header}\n{row}"
            file.write(text)
        self._sizes[name] = size + len(text)


def _row(each: Measurement) -> tuple[str, str]:
    if each.kind == "quantiles":
        median, upper = each.quantiles["0.50"], ("0.95", "0.99", "0.999")
        columns = (UNKNOWN, UNKNOWN, UNKNOWN, median, UNKNOWN, *map(each.quantiles.get, upper))
        return TIMES, ",".join(map(str, columns))
    if each.kind == "gauge":
        return GAUGE, str(each.value)
    if not each.rates:
        return COUNTER, str(each.value)
    one, five, fifteen, mean = each.rates
    return METER, f"{each.value},{one},{mean},{five},{fifteen}"
