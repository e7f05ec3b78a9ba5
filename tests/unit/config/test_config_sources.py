"""What DescribeConfigs says about sources; the answers were compared with Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from moldau.config.broker_config import BrokerConfig
from moldau.config.config_sources import (
    BrokerLayers,
    Entry,
    Source,
    Synonym,
    broker_entries,
    client_metrics_entries,
    default_broker_entries,
    group_entries,
    topic_defaults,
    topic_entries,
)
from moldau.config.setting_definition import Kind

FILE = {
    "broker.id": "0",
    "log.segment.bytes": "2000000",
    "log.retention.hours": "24",
    "custom.key": "abc",
    "ssl.keystore.password": "secret",
    "listener.name.plaintext.max.connections": "100",
}


def layers(
    *, dynamic_default: dict[str, str] | None = None, dynamic: dict[str, str] | None = None
) -> BrokerLayers:
    return BrokerLayers(BrokerConfig.parse(FILE)[0], dynamic_default or {}, dynamic or {})


def topic(overrides: dict[str, str], broker: BrokerLayers) -> dict[str, Entry]:
    return {entry.name: entry for entry in topic_entries(overrides, topic_defaults(broker))}


def broker(of: BrokerLayers) -> dict[str, Entry]:
    return {entry.name: entry for entry in broker_entries(of)}


def test_a_topic_s_own_value_comes_first_and_all_layers_below_are_listed() -> None:
    of = layers(
        dynamic_default={"log.segment.bytes": "3000000"}, dynamic={"log.segment.bytes": "4000000"}
    )
    entry = topic({"segment.bytes": "5000000"}, of)["segment.bytes"]
    assert (entry.value, entry.source, entry.kind) == ("5000000", Source.TOPIC, Kind.INT)
    assert entry.synonyms == (
        Synonym("segment.bytes", "5000000", Source.TOPIC),
        Synonym("log.segment.bytes", "4000000", Source.DYNAMIC_BROKER),
        Synonym("log.segment.bytes", "3000000", Source.DYNAMIC_DEFAULT_BROKER),
        Synonym("log.segment.bytes", "2000000", Source.STATIC_BROKER),
        Synonym("log.segment.bytes", "1073741824", Source.DEFAULT),
    )


@pytest.mark.parametrize(
    "of, value, source",
    [
        (layers(), "2000000", Source.STATIC_BROKER),
        (
            layers(dynamic_default={"log.segment.bytes": "3000000"}),
            "3000000",
            Source.DYNAMIC_DEFAULT_BROKER,
        ),
        (layers(dynamic={"log.segment.bytes": "4000000"}), "4000000", Source.DYNAMIC_BROKER),
    ],
)
def test_a_topic_without_a_value_shows_the_broker_s(
    of: BrokerLayers, value: str, source: Source
) -> None:
    entry = topic({}, of)["segment.bytes"]
    assert (entry.value, entry.source) == (value, source)


def test_hours_count_for_a_topic_but_are_listed_only_below_milliseconds() -> None:
    entry = topic({}, layers())["retention.ms"]
    assert (entry.value, entry.source, entry.synonyms) == ("86400000", Source.DEFAULT, ())
    entry = topic({}, layers(dynamic={"log.retention.ms": "5000000"}))["retention.ms"]
    assert (entry.value, entry.source) == ("5000000", Source.DYNAMIC_BROKER)
    assert entry.synonyms == (
        Synonym("log.retention.ms", "5000000", Source.DYNAMIC_BROKER),
        Synonym("log.retention.hours", "24", Source.STATIC_BROKER),
        Synonym("log.retention.hours", "168", Source.DEFAULT),
    )


def test_a_topic_lists_all_settings_in_order_and_hides_those_for_tests() -> None:
    entries = topic({}, layers())
    assert len(entries) == 33
    assert list(entries) == sorted(entries)
    assert "internal.segment.bytes" not in entries
    shown = topic({"internal.segment.bytes": "1000"}, layers())
    assert shown["internal.segment.bytes"].value == "1000"
    assert shown["segment.bytes"].value == "2000000"


def test_values_are_shown_as_they_were_understood() -> None:
    entries = topic({"preallocate": "TRUE", "retention.ms": " 55 "}, layers())
    assert (entries["preallocate"].value, entries["retention.ms"].value) == ("true", "55")


def test_an_override_under_an_old_name_is_shown_under_the_right_one() -> None:
    assert topic({"max.message.size": "7"}, layers())["max.message.bytes"].value == "7"


def test_a_broker_lists_all_settings_with_source_type_and_mode() -> None:
    entries = broker(layers(dynamic={"log.cleaner.threads": "2"}))
    assert entries["log.cleaner.threads"].source is Source.DYNAMIC_BROKER
    assert not entries["log.cleaner.threads"].read_only
    assert entries["log.segment.bytes"].source is Source.STATIC_BROKER
    assert entries["num.partitions"].source is Source.DEFAULT
    assert entries["num.partitions"].read_only
    assert entries["log.retention.ms"].value is None
    assert list(entries) == sorted(entries)


def test_a_broker_shows_one_number_under_both_names() -> None:
    entries = broker(layers())
    assert (entries["node.id"].value, entries["broker.id"].value) == ("0", "0")


def test_secrets_and_unknown_values_are_never_shown() -> None:
    entries = broker(layers(dynamic={"another.key": "xyz"}))
    for key in ("ssl.keystore.password", "custom.key", "another.key"):
        assert entries[key].is_sensitive
        assert entries[key].value is None
        assert {synonym.value for synonym in entries[key].synonyms} == {None}
    assert entries["custom.key"].kind is Kind.UNKNOWN


@pytest.mark.parametrize(
    "key",
    [
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    ],
)
def test_a_rate_that_was_set_while_running_is_shown(key: str) -> None:
    entry = broker(layers(dynamic={key: "1000"}))[key]
    assert (entry.value, entry.kind, entry.is_sensitive) == ("1000", Kind.LONG, False)
    assert entry.synonyms == (Synonym(key, "1000", Source.DYNAMIC_BROKER),)
    (entry,) = default_broker_entries({key: "1000"})
    assert (entry.value, entry.kind, entry.is_sensitive) == ("1000", Kind.LONG, False)
    assert key not in broker(layers())


def test_a_listener_s_own_value_is_listed_with_the_one_it_replaces() -> None:
    entry = broker(layers())["listener.name.plaintext.max.connections"]
    assert (entry.value, entry.kind, entry.is_sensitive) == ("100", Kind.INT, False)
    assert entry.synonyms == (
        Synonym("listener.name.plaintext.max.connections", "100", Source.STATIC_BROKER),
        Synonym("max.connections", "2147483647", Source.DEFAULT),
    )


def test_the_cluster_lists_only_what_was_set_for_it() -> None:
    entries = default_broker_entries(
        {"log.cleaner.threads": "3", "own": "x", "ssl.key.password": "y"}
    )
    assert [(entry.name, entry.value) for entry in entries] == [
        ("log.cleaner.threads", "3"),
        ("own", None),
        ("ssl.key.password", None),
    ]
    assert {entry.source for entry in entries} == {Source.DYNAMIC_DEFAULT_BROKER}


def test_a_stored_value_that_is_no_longer_valid_does_not_stop_the_broker() -> None:
    of = layers(dynamic={"log.cleaner.threads": "many", "log.segment.bytes": "4000000"})
    current = of.current()
    assert (current.log_cleaner_threads, current.log_segment_bytes) == (1, 4000000)
    assert broker(of)["log.cleaner.threads"].value == "many"


def test_a_group_s_own_value_comes_before_the_broker_s() -> None:
    dynamic = {"group.consumer.assignment.interval.ms": "2000"}
    own = {"consumer.assignment.interval.ms": " 3000 "}
    entries = {entry.name: entry for entry in group_entries(own, layers(dynamic_default=dynamic))}
    entry = entries["consumer.assignment.interval.ms"]
    assert (entry.value, entry.source, entry.kind) == ("3000", Source.GROUP, Kind.INT)
    assert entry.synonyms == (
        Synonym("consumer.assignment.interval.ms", "3000", Source.GROUP),
        Synonym("group.consumer.assignment.interval.ms", "2000", Source.DYNAMIC_DEFAULT_BROKER),
        Synonym("group.consumer.assignment.interval.ms", "1000", Source.DEFAULT),
    )
    without = entries["share.auto.offset.reset"]
    assert without.synonyms == (Synonym("share.auto.offset.reset", "latest", Source.DEFAULT),)
    assert list(entries) == sorted(entries)


def test_a_subscription_lists_what_was_set_and_the_defaults() -> None:
    interval, match, metrics = client_metrics_entries({"interval.ms": "1000", "metrics": "a, b"})
    assert (interval.value, interval.source) == ("1000", Source.CLIENT_METRICS)
    assert (match.value, match.source, match.synonyms) == ("", Source.DEFAULT, ())
    assert (metrics.value, metrics.kind) == ("a,b", Kind.LIST)


def test_what_kafka_has_no_row_for_is_listed_only_where_it_is_set_and_never_shown() -> None:
    assert "super.users" not in entries_of({})
    assert "port" not in entries_of({})
    entry = entries_of({"super.users": "User:alice"})["super.users"]
    assert (entry.value, entry.is_sensitive, entry.source) == (None, True, Source.STATIC_BROKER)


def test_an_internal_setting_is_listed_where_it_is_set() -> None:
    key = "log.initial.task.delay.ms"
    assert key not in entries_of({})
    assert entries_of({key: "7"})[key].value == "7"


def entries_of(given: dict[str, str]) -> dict[str, Entry]:
    static, _ = BrokerConfig.parse(given)
    return {entry.name: entry for entry in broker_entries(BrokerLayers(static))}
