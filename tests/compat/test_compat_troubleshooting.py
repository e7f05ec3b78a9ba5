"""What docs/troubleshooting.md puts into Apache Kafka's mouth stands in its jars."""

from __future__ import annotations

import zipfile

import pytest

from tests.support import apache_kafka, apache_kafka_39
from tests.support.troubleshooting import KAFKA, pieces, texts_of

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def classes() -> bytes:
    """All of Kafka's own, of 4.3.1 and of 3.9.1."""
    found = []
    for home in (apache_kafka.kafka_home(), apache_kafka_39.kafka39_home()):
        for jar in (home / "libs").glob("kafka*.jar"):
            with zipfile.ZipFile(jar) as opened:
                names = (name for name in opened.namelist() if name.endswith(".class"))
                found += [opened.read(name) for name in names]
    return b"\0".join(found)


@pytest.mark.parametrize("text", sorted(texts_of(KAFKA)))
def test_a_text_of_apache_kafka_stands_in_its_classes(text: str, classes: bytes) -> None:
    assert [piece for piece in pieces(text) if piece.encode() not in classes] == []
