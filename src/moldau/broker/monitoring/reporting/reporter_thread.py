"""Runs one reporter beside the loop: in a thread, with a short queue, whatever it does.

A reporter may raise, be slow or hang: then it loses reports, and the broker goes on. Its thread
does not hold up the end of the process either.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from moldau.model.log_line_limit import LogLimit

log = logging.getLogger("kafka.metrics.KafkaMetricsReporter")
log.addFilter(LogLimit())

WAITING_MAX = 64
"""Calls that wait for the reporter; what comes beyond is dropped."""
WAITING_BYTES_MAX = 32 * 1024 * 1024
"""So many bytes of what clients have pushed wait with them."""
CLOSE_SECONDS_MAX = 3.0

Call = Callable[[], Any]


class ReporterThread:
    def __init__(self, name: str, reporter: Any) -> None:
        self.name = name
        self.reporter = reporter
        self.done = 0
        self.failed = 0
        self.dropped = 0
        self._waiting: queue.Queue[tuple[Call | None, int]] = queue.Queue(WAITING_MAX)
        self._offered_bytes = 0
        """Only whoever offers adds to it, and only the thread to the next; both only grow."""
        self._begun_bytes = 0
        self._has_report = False
        self._thread = threading.Thread(target=self._run, name=f"metrics-{name}", daemon=True)
        self._thread.start()

    def offer_report(self, call: Call) -> None:
        """The numbers of one moment: only one report waits at a time."""
        if self._has_report:
            self.dropped += 1
            return
        self._has_report = True

        def report() -> None:
            try:
                call()
            finally:
                self._has_report = False

        self.offer(report, is_report=True)

    def offer(self, call: Call, *, is_report: bool = False, size_bytes: int = 0) -> None:
        """`size_bytes` is about what the call holds in memory while it waits."""
        waiting_bytes = self._offered_bytes - self._begun_bytes
        try:
            if size_bytes and waiting_bytes + size_bytes > WAITING_BYTES_MAX:
                raise queue.Full
            self._waiting.put_nowait((call, size_bytes))
        except queue.Full:
            self.dropped += 1
            if is_report:
                self._has_report = False
        else:
            self._offered_bytes += size_bytes

    def close(self, ends_at: float) -> None:
        """Waits until the reporter has closed, or until then by the monotonic clock."""
        try:
            self._waiting.put((None, 0), timeout=max(0.0, ends_at - time.monotonic()))
        except queue.Full:
            pass
        else:
            self._thread.join(max(0.0, ends_at - time.monotonic()))
        if self._thread.is_alive():
            log.warning("Metrics reporter %s does not end; it is left alone", self.name)

    def _run(self) -> None:
        while True:
            call, size_bytes = self._waiting.get()
            self._begun_bytes += size_bytes
            try:
                if call is None:
                    self.reporter.close()
                    return
                call()
                self.done += 1
            except Exception as fault:
                self.failed += 1
                log.warning(
                    "Metrics reporter %s failed: %s: %s",
                    *(self.name, type(fault).__name__, fault),
                    exc_info=fault if log.isEnabledFor(logging.DEBUG) else None,
                )
                if call is None:
                    return
