"""What brokers tell over HTTP, as Prometheus would read it: connections, times, pushed metrics.

The addresses are the operator's. An answer is bounded in time and size, redirects are not
followed, and of all series only those that a page shows are kept.
"""

from __future__ import annotations

import http.client
import json
import re
from typing import Any, NamedTuple
from urllib.parse import urlsplit

ANSWER_S = 3.0
ANSWER_BYTES_MAX = 16 << 20
ROWS_MAX = 1_000

CONNECTIONS = "kafka_server_socket_server_metrics_connection_count"
SOFTWARE = "kafka_server_socket_server_metrics_connections_software"
CIPHERS = "kafka_server_socket_server_metrics_connections_tls_info"
TIMES = "kafka_network_requestmetrics_totaltimems"
BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"
IDLE = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
MEMORY = "process_resident_memory_bytes"
WANTED = frozenset((CONNECTIONS, SOFTWARE, CIPHERS, TIMES, BYTES_IN, BYTES_OUT, IDLE, MEMORY))
_SERIES = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


class SilentError(Exception):
    """The address does not tell; says why in one sentence."""


def address_fault(address: str) -> str | None:
    """Why nothing can be asked there, in one sentence."""
    place = urlsplit(address)
    try:
        has_port = place.port is None or place.port > 0
    except ValueError:
        has_port = False
    if place.scheme != "http" or not place.hostname or not has_port or place.query:
        return f"--metrics {address} must look like http://127.0.0.1:9404."
    return None


def fetch(address: str, path: str) -> bytes:
    """Blocks. SilentError."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=ANSWER_S)
    try:
        connection.request("GET", place.path.rstrip("/") + path)
        answer = connection.getresponse()
        if answer.status != 200:
            raise SilentError(f"{address}{path} answers {answer.status}")
        content = answer.read(ANSWER_BYTES_MAX + 1)
    except (OSError, http.client.HTTPException) as fault:
        raise SilentError(f"{address} does not answer: {fault}"[:300]) from None
    finally:
        connection.close()
    if len(content) > ANSWER_BYTES_MAX:
        raise SilentError(f"{address}{path} answers with more than {ANSWER_BYTES_MAX >> 20} MiB")
    return content


def samples(text: str) -> list[Sample]:
    """The series that pages show; what cannot be read is passed over."""
    found = []
    for line in text.splitlines():
        name = line[: min(at for at in (line.find("{"), line.find(" "), len(line)) if at >= 0)]
        if name not in WANTED:
            continue
        parts = _SERIES.match(line)
        if parts is None:
            continue
        try:
            value = float(parts[3])
        except ValueError:
            continue
        labels = {key: _unescaped(word) for key, word in _LABEL.findall(parts[2] or "")}
        found.append(Sample(name, labels, value))
    return found


def _unescaped(word: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), word)


def ask_metrics(address: str) -> list[Sample]:
    return samples(fetch(address, "/metrics").decode(errors="replace"))


def ask_clients(address: str) -> list[dict[str, Any]]:
    """The clients that push metrics, of brokers that tell them; none of others."""
    try:
        told = json.loads(fetch(address, "/clients.json"))
        rows = told["clients"]
    except (SilentError, ValueError, TypeError, KeyError):
        return []
    return [row for row in rows[:ROWS_MAX] if isinstance(row, dict)]


def total(found: list[Sample], name: str, **labels: str) -> float | None:
    """The sum of series without other labels than those that are named; None without any."""
    values = [
        each.value
        for each in found
        if each.name == name and all(each.labels.get(key) == word for key, word in labels.items())
    ]
    return sum(values) if values else None
