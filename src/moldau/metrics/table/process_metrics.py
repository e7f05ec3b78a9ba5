"""Metrics of the process, under the names that Prometheus's own collectors use."""

from __future__ import annotations

from moldau.metrics.metric_definition import Metric, counter, gauge

# Rows stay compact, so that the table can be read as one.
# fmt: off
PROCESS_METRICS: tuple[Metric, ...] = (
    counter("process_cpu_seconds_total", (), "Processor time used.", "the operating system"),
    gauge("process_open_fds", (), "Open file descriptors.", "/proc/self/fd"),
    gauge("process_max_fds", (), "Descriptors that may be open.", "the operating system"),
    gauge("process_resident_memory_bytes", (), "Memory in use.", "/proc/self/statm"),
    gauge("process_virtual_memory_bytes", (), "Address space in use.", "/proc/self/statm"),
    gauge("process_start_time_seconds", (), "When the process began, in seconds since 1970.",
        "/proc/self/stat"),
    gauge("process_threads", (), "Threads of Python's that run.", "`threading`"),
    counter("python_gc_collections_total", ("generation",),
        "Times that garbage was collected.", "`gc.get_stats`"),
    counter("python_gc_objects_collected_total", ("generation",),
        "Objects that were collected as garbage.", "`gc.get_stats`"),
    counter("python_gc_pause_seconds_total", (),
        "Time for which everything stood still while garbage was looked for.", "`gc.callbacks`"),
    gauge("moldau_info", ("version", "python", "cluster_id", "node_id"),
        "1; the labels say what runs here.", "the package"),
    gauge("kafka.server:type=app-info/start-time-ms", (),
        "When the broker began, in milliseconds since 1970.", "/proc/self/stat"),
)
# fmt: on
