"""The tables as a whole: complete, well-formed, and Apache Kafka's where they should be.

Each test looks at every row and lists the keys that break the promise.
"""

from __future__ import annotations

from pathlib import Path

from moldau.config.broker_config import BrokerConfig
from moldau.config.client_metrics_config import ClientMetricsConfig
from moldau.config.group_config import GroupConfig
from moldau.config.setting_definition import ConfigError, Kind, Scope, Setting, value_text
from moldau.config.topic_config import TopicConfig

TABLES = (BrokerConfig, TopicConfig, GroupConfig, ClientMetricsConfig)
ROWS = [row for table in TABLES for row in table.rows.values()]
DELIBERATE = {
    # A fixed buffer of 400 KiB is the fastest on loopback and local networks.
    "socket.send.buffer.bytes",
    "socket.receive.buffer.bytes",
    # Kafka insists on a number; here a broker without ZooKeeper is number 0.
    "node.id",
    # Required by KRaft, and nothing here is KRaft.
    "process.roles",
    "controller.listener.names",
}


def kafka_rows(file: str) -> list[list[str]]:
    lines = (Path(__file__).parent / file).read_text().splitlines()[1:]
    return [line.split("\t") for line in lines]


def default_text(row: Setting) -> str:
    return "null" if row.default is None else row.default_text or ""


def outside_values(row: Setting) -> list[str]:
    if row.or_value is not None:
        return ["0", "10"]
    values = []
    if row.at_least is not None:
        values.append(row.at_least - 1)
    if row.at_most is not None:
        values.append(row.at_most + 1)
    return [str(value if row.kind is Kind.DOUBLE else int(value)) for value in values]


def refusal(row: Setting, text: str) -> str:
    try:
        row.parse(text)
    except ConfigError as error:
        return str(error)
    return "accepted"


def test_every_row_has_a_sentence() -> None:
    assert [row.key for row in ROWS if not row.doc.endswith(".") or len(row.doc) < 10] == []


def test_every_default_is_allowed_and_reads_back_as_itself() -> None:
    given = [row for row in ROWS if row.default is not None]
    assert [
        row.key for row in given if row.parse(value_text(row.default) or "") != row.default
    ] == []


def test_the_attribute_is_the_key_with_underscores() -> None:
    assert [row.key for row in ROWS if row.name != row.key.lower().replace(".", "_")] == []


def test_a_value_just_outside_the_range_is_refused_with_key_value_and_limit() -> None:
    for row in ROWS:
        for text in outside_values(row):
            sentence = f"Invalid value {text} for configuration {row.key}: must be {row.limits}"
            not_a_number = sentence.replace(f"must be {row.limits}", "not a number of type")
            found = refusal(row, text)
            assert found == sentence or found.startswith(not_a_number)


def test_no_alias_is_a_key_or_the_alias_of_two() -> None:
    for table in TABLES:
        aliases = [alias for row in table.rows.values() for alias in row.aliases]
        assert len(set(aliases)) == len(aliases)
        assert not set(aliases) & set(table.rows)


def test_every_topic_setting_names_a_broker_setting_of_the_same_kind() -> None:
    for row in TopicConfig.rows.values():
        if row.synonym is not None:
            broker = BrokerConfig.rows[row.synonym]
            assert (broker.kind, broker.one_of, broker.scope) == (
                row.kind,
                row.one_of,
                Scope.CLUSTER,
            )


def test_every_setting_of_a_kafka_broker_is_here_with_its_type_default_and_scope() -> None:
    different = []
    for key, kind, default, changes in kafka_rows("kafka-4.3.1-broker-configs.tsv"):
        row = BrokerConfig.rows[key]
        assert (row.kind.name, row.scope.value) == (kind, changes), key
        if default_text(row) != default:
            different.append(key)
    assert set(different) == DELIBERATE


def test_every_setting_of_a_kafka_topic_is_here_with_its_type_and_default() -> None:
    for key, kind, default in kafka_rows("kafka-4.3.1-topic-configs.tsv"):
        row = TopicConfig.rows[key]
        assert (row.kind.name, default_text(row)) == (kind, default), key


def test_every_setting_of_a_kafka_group_is_here_with_its_type_default_and_broker_key() -> None:
    rows = kafka_rows("kafka-4.3.1-group-configs.tsv")
    assert [key for key, *_ in rows] == sorted(GroupConfig.rows)
    for key, kind, default, synonym in rows:
        row = GroupConfig.rows[key]
        assert (row.kind.name, default_text(row), row.synonym or "") == (kind, default, synonym)
