"""Checks of single values that a range cannot say; each returns what is wrong, or None."""

from __future__ import annotations

import re

CSV_REPORTER = "kafka.metrics.KafkaCSVMetricsReporter"
JMX_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"
_DURATION = re.compile(
    r"by_duration:\+?P(\+?\d+D)?(T(\+?\d+H)?(\+?\d+M)?(\+?\d+([.,]\d{0,9})?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_THROTTLED = re.compile(r"[0-9]+:[0-9]+")


def address_counts(text: str) -> str | None:
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, separator, count = entry.rpartition(":")
        if not separator or not host or not count.isascii() or not count.isdigit():
            return f"{entry} is not of the form host:count"
    return None


def http_address(text: str) -> str | None:
    from urllib.parse import urlsplit  # rarely needed

    try:
        parts = urlsplit(text)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or "@" in parts.netloc:
        return "must be http://host:port/path, for example http://127.0.0.1:4318/v1/metrics"
    return None


def host_and_port(text: str) -> str | None:
    host, separator, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) <= 65535
    if not separator or not host or not is_port or (":" in host and host[0] + host[-1] != "[]"):
        return "must be host:port, for example 127.0.0.1:9404 or [::1]:9404"
    return None


def offset_reset(text: str) -> str | None:
    """Where to begin without an offset: an end of the log, or a time before now (ISO 8601)."""
    is_duration = _DURATION.fullmatch(text) and not text.endswith(("P", "T"))
    if text in ("earliest", "latest") or is_duration:
        return None
    return "must be earliest, latest or by_duration:<PnDTnHnMn.nS>"


def throttled_replicas(entries: tuple[str, ...]) -> str | None:
    if entries == ("*",) or all(_THROTTLED.fullmatch(entry) for entry in entries):
        return None
    return "must be * or a list of partition:broker pairs such as 0:101,1:102"
