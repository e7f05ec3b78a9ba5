"""What one client wrote, with every codec, every other client reads unchanged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compat.clients.catalogue import NAMES, Clients
from tests.compat.clients.port import CODECS, Client, Record
from tests.compat.records import assert_read_back, counts, varied_records

Written = Callable[[Client, str], tuple[str, list[Record]]]


@pytest.fixture(scope="module")
def written() -> Written:
    """Writes once per writer and codec; every reader reads that same topic."""
    done: dict[tuple[str, str], tuple[str, list[Record]]] = {}

    def write(writer: Client, codec: str) -> tuple[str, list[Record]]:
        if (writer.name, codec) not in done:
            topic = f"cross-{writer.name}-{codec}-{id(done):x}"
            writer.create_topic(topic, partitions=1, configs={})
            # Enough of them that a compressed batch is worth the name.
            records = varied_records(writer) * 30
            writer.produce(topic, records, codec=codec)
            done[writer.name, codec] = topic, records
        return done[writer.name, codec]

    return write


@pytest.mark.parametrize("reader", NAMES)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", NAMES)
def test_one_client_reads_what_another_wrote(
    writer: str, codec: str, reader: str, clients: Clients, written: Written
) -> None:
    topic, records = written(clients[writer], codec)

    assert_read_back(records, clients[reader].consume(topic, counts(records)))
