"""The names, types and labels that Apache Kafka's metrics have, and what of them a broker tells.

`kafka-4.3.1-metrics.tsv` is what Apache Kafka 4.3.1 told after `tests/support/watched_load.py`, one
KRaft node, through the JMX exporter 1.0.1 by the rules of Strimzi and by those of Confluent, the
Java machine left out; `python -m tests.support.kafka_metrics` asks it again. What is missing here
stands in docs/monitoring.md with its reason.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

import moldau
from moldau.testing.broker_process import BrokerProcess, free_port
from tests.integration.test_server_metrics import page
from tests.support.watched_load import TOPIC, watched_load

pytestmark = pytest.mark.compat

TABLE = Path(__file__).parent / "kafka-4.3.1-metrics.tsv"
ABSENT = {
    "KRaft": r"raft|metadataloader|snapshotemitter|brokermetadata|assignmentsmanager"
    r"|controllerserver|electionfromeligible|brokerregistrationstate|controlledshutdownbroker"
    r"|kafkacontroller_(event|ignored|last|metadata|newactive|timed|timesince|fenced)"
    r"|brokerrequesthandler|controllerrequesthandler|cordoned",
    "share groups": r"share",
    "a queue of events": r"controllereventmanager_(avgidle|eventqueue(processing)?timems)",
    "threads and selectors": r"io_(time|wait|ratio)|network_io|_select|request_size"
    r"|socket_?server_?metrics_(request|response)|deadthreadcount|max_buffer_utilization",
    "temporary memory": r"temporarymemory",
    "rates": r"(one|five|fifteen)minuterate|(incoming|outgoing)_byte_rate"
    r"|requesthandleravgidlepercent(_count_total)?$",
    "logs between directories": r"alterlogdirsmanager",
    "nobody has asked for it": r"retentionsizein|max_compaction_delay"
    r"|delayed(produce|fetch)metrics|messageconversionstimems|addpartitionstotxnmanager"
    r"|yammer|failedpartitionscount|reauthentication_latency"
    r"|no_reauth|throttler_cleaner|logappendretry",
}
"""By the heading in docs/monitoring.md."""


class Family(NamedTuple):
    type: str
    labels: frozenset[str]


def expected(dialect: str) -> dict[str, Family]:
    rows = [line.split("\t") for line in TABLE.read_text().splitlines()[1:]]
    return {
        name: Family(kind, frozenset(labels.split(" ")))
        for of, name, kind, labels in rows
        if of == dialect
    }


def told(text: str) -> dict[str, Family]:
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    labels: dict[str, set[str]] = {}
    for name, inside in re.findall(r"^([a-z_0-9]+)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        found = ",".join(sorted(re.findall(r'(\w+)="', inside)))
        labels.setdefault(name, set()).add(found or "-")
    return {name: Family(types.get(name, ""), frozenset(each)) for name, each in labels.items()}


@pytest.fixture(scope="module", params=["strimzi", "confluent"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Family], dict[str, Family]]:
    """What Apache Kafka tells in a dialect, and what is told here after the same load."""
    port, dialect = free_port(), request.param
    overrides = {
        "metrics.http.listener": f"127.0.0.1:{port}",
        "metrics.http.dialect": dialect,
        "num.partitions": "2",
    }
    directory = tmp_path_factory.mktemp(dialect)
    with BrokerProcess(directory, overrides=overrides) as broker:
        watched_load(broker.bootstrap)
        with moldau.Producer({"bootstrap.servers": broker.bootstrap}) as producer:
            producer.send(TOPIC, b"its connection is open").result()
            text = page(port, "/metrics") + page(port, "/metrics/partitions")
    return expected(dialect), told(text)


def test_every_name_is_told_or_its_absence_explained(
    both: tuple[dict[str, Family], dict[str, Family]],
) -> None:
    kafka, here = both
    known = re.compile("|".join(ABSENT.values()))
    # The exporter of today writes the count of a summary so; what asks for it asks without.
    counted = {name.removesuffix("_total") for name in kafka if name.endswith("_count_total")}
    missing = [
        name
        for name in kafka
        if name not in here and name.removesuffix("_total") not in {*here} & counted
    ]
    assert [name for name in missing if not known.search(name)] == []


def test_what_is_told_by_the_same_name_has_the_same_labels(
    both: tuple[dict[str, Family], dict[str, Family]],
) -> None:
    kafka, here = both
    common = [name for name in kafka if name in here]
    assert len(common) > 90
    other = {
        name: (set(kafka[name].labels), set(here[name].labels))
        for name in common
        # A topic without failures has none; Kafka has a row for each processor and their sum.
        if not here[name].labels <= kafka[name].labels
    }
    assert other == {}


def test_types_are_those_of_kafka_but_for_summaries(
    both: tuple[dict[str, Family], dict[str, Family]],
) -> None:
    kafka, here = both
    other = {
        name: (family.type, here[name].type)
        for name, family in kafka.items()
        if name in here and here[name].type not in ("summary", family.type)
    }
    assert other == {}


def test_the_page_on_monitoring_has_the_reasons() -> None:
    text = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
    assert [heading for heading in ABSENT if f"| {heading} |" not in text] == []
