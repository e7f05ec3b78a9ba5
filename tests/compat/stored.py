"""How a broker stored what it was sent, seen through one raw Fetch."""

from __future__ import annotations

from benchmarks import requests
from benchmarks.control import Control
from moldau.records.batch import whole_headers
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
