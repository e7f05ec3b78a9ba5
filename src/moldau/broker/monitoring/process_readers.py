"""Reads the metrics of `metrics/table/process_metrics.py` from the operating system and Python."""

from __future__ import annotations

import gc
import os
import platform
import resource
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from moldau import __version__
from moldau.broker.monitoring.metric_sources import MetricSources
from moldau.broker.monitoring.reading import Reader, one
from moldau.metrics.metric_definition import Samples

FILES_PER_LOOK = 500
STARTED_AT = 19
"""Of the fields of /proc/self/stat behind the name, when the process began."""


def _told(read: Callable[[], float]) -> Reader:
    """Nothing where the system does not tell."""

    def samples(_: MetricSources) -> Samples:
        try:
            value = read()
        except OSError:
            return
        yield (), value

    return samples


def _open_files(_: MetricSources) -> Samples:
    """In steps: there may be as many as there are connections."""
    count = 0
    try:
        with os.scandir("/proc/self/fd") as entries:
            for _entry in entries:
                count += 1
                if count % FILES_PER_LOOK == 0:
                    yield None
    except OSError:
        return
    yield (), count - 1  # the one by which they are counted


def _pages(field: int) -> float:
    rows = Path("/proc/self/statm").read_text().split()
    return int(rows[field]) * resource.getpagesize()


def _start_seconds() -> float:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[STARTED_AT]) / os.sysconf("SC_CLK_TCK")
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return round(booted + ticks, 2)


def _collections(name: str) -> Reader:
    def samples(_: MetricSources) -> Samples:
        for generation, row in enumerate(gc.get_stats()):
            yield (str(generation),), row[name]

    return samples


def _info(sources: MetricSources) -> Samples:
    names = (platform.python_version(), sources.image().cluster_id, str(sources.node_id))
    yield (__version__, *names), 1


PROCESS_READERS: Mapping[str, Reader] = {
    "process_cpu_seconds_total": _told(time.process_time),
    "process_open_fds": _open_files,
    "process_max_fds": _told(lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    "process_resident_memory_bytes": _told(lambda: _pages(1)),
    "process_virtual_memory_bytes": _told(lambda: _pages(0)),
    "process_start_time_seconds": _told(_start_seconds),
    "process_threads": _told(threading.active_count),
    "python_gc_collections_total": _collections("collections"),
    "python_gc_objects_collected_total": _collections("collected"),
    "python_gc_pause_seconds_total": one(lambda s: round(s.gc_pauses(), 6)),
    "moldau_info": _info,
    "kafka.server:type=app-info/start-time-ms": _told(lambda: int(_start_seconds() * 1000)),
}
