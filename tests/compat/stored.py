"""How a broker stored what it was sent, seen through raw requests and in its log files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from benchmarks import requests
from benchmarks.control import Control
from moldau.records.batch import whole_headers
from moldau.records.batch_codec import decode_batch, decode_marker
from tests.compat.clients.port import CODECS

FETCH_BYTES = 1024 * 1024


def stored_codecs(bootstrap: str, topic: str) -> set[str]:
    """Codecs of the batches of partition 0, as far as one answer reaches.

    A client that believes its broker cannot do a codec leaves it out without a word, and the
    records come back unchanged all the same; so this has to be looked at.
    """
    with Control(int(bootstrap.rpartition(":")[2])) as control:
        answer = control.ask(requests.fetch(topic, 0, 0, FETCH_BYTES))
    start = requests.fetch_records_position(topic) - 4
    while answer[start] >= 0x80:
        start += 1
    return {CODECS[header.codec] for _, header in whole_headers(answer[start + 1 :])}


def last_stable_offset(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Where a reader of committed records has to stop."""
    with Control(int(bootstrap.rpartition(":")[2])) as control:
        offset = control.end_offset(topic, partition, requests.READ_COMMITTED)
    assert offset is not None
    return offset


class LogRow(NamedTuple):
    """A record or a marker ("COMMIT", "ABORT") and the producer that it came from."""

    producer_id: int
    producer_epoch: int
    text: str


def log_rows(data: Path, topic: str, partition: int = 0) -> list[LogRow]:
    """Every record of the partition's files, markers included, in the order of the log."""
    rows = []
    for path in sorted((data / f"{topic}-{partition}").glob("*.log")):
        batches = path.read_bytes()
        for position, header in whole_headers(batches):
            for record in decode_batch(batches, position):
                text = (record.value or b"").decode()
                if header.is_control:
                    marker = decode_marker(record)
                    assert marker is not None
                    text = marker.kind.name
                rows.append(LogRow(header.producer_id, header.producer_epoch, text))
    return rows
