"""The source's options: the connector's names and meaning, and a sentence for each mistake."""

from __future__ import annotations

import pytest

from moldau.model.names import TopicPartition
from moldau.pipelines.source.source_options import (
    EARLIEST,
    LATEST,
    Edge,
    SourceError,
    SourceOptions,
    parse_duration_ms,
    parse_options,
)

NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders, bills"}


def parse(*, is_stream: bool = True, **options: str) -> SourceOptions:
    return parse_options({**NEEDED, **options}, is_stream=is_stream)


def test_names_of_options_have_no_case() -> None:
    options = parse(STARTINGoffsets="Earliest", includeheaders="TRUE")
    assert options.start == Edge(EARLIEST)
    assert options.include_headers
    assert options.subscription.topics == ("orders", "bills")


def test_a_stream_starts_at_the_end_and_a_batch_at_the_start() -> None:
    assert parse(is_stream=True).start == Edge(LATEST)
    batch = parse(is_stream=False)
    assert (batch.start, batch.end) == (Edge(EARLIEST), Edge(LATEST))


def test_of_the_ways_to_say_where_to_start_one_timestamp_wins() -> None:
    given = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"orders":{"0":5}}',
        "startingTimestamp": "77",
    }
    assert parse(**given).start == Edge(timestamp=77)
    del given["startingTimestamp"]
    assert parse(**given).start == Edge(timestamps={TopicPartition("orders", 0): 5})


def test_the_group_to_commit_to_is_the_consumers_unless_it_has_an_option_of_its_own() -> None:
    assert parse().commit_group is None
    assert parse(**{"kafka.group.id": "jobs"}).commit_group == "jobs"
    assert parse(**{"kafka.group.id": "jobs", "commitGroup": "lag"}).commit_group == "lag"


def test_settings_of_the_client_keep_their_kafka_names() -> None:
    options = parse(**{"kafka.isolation.level": "read_committed", "kafka.fetch.max.wait.ms": "7"})
    assert options.consumer.isolation_level == "read_committed"
    assert options.consumer.fetch_max_wait_ms == 7


@pytest.mark.parametrize(
    ("text", "expected_ms"), [("500ms", 500), ("10s", 10_000), ("15m", 900_000), ("1h", 3_600_000)]
)
def test_durations_are_written_as_in_spark(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


MISTAKES = [
    ({"subscribePattern": "o.*"}, "Exactly one of .* subscribe and subscribePattern was given"),
    ({"subscribe": " , "}, "names no topic"),
    ({"startingOffset": "earliest"}, "no option startingoffset; did you mean startingOffsets"),
    ({"startingOffsets": "early"}, "startingOffsets cannot be 'early': use earliest, latest"),
    ({"startingOffsets": '{"orders":{"0":-3}}'}, "-3 of orders-0 is no offset"),
    ({"startingOffsetsByTimestamp": '{"orders":{"0":-1}}'}, "-1 of orders-0 is no time"),
    ({"startingTimestamp": "today"}, "milliseconds since 1970"),
    ({"endingOffsets": "latest"}, "a stream has no end"),
    ({"maxOffsetsPerTrigger": "0"}, "whole number of at least 1"),
    ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger is 5"),
    ({"maxTriggerDelay": "soon"}, "500ms, 10s, 15m or 1h"),
    ({"failOnDataLoss": "no"}, "use true or false"),
    ({"startingOffsetsByTimestampStrategy": "guess"}, "use error or latest"),
    ({"kafka.auto.offset.reset": "latest"}, "the option startingOffsets says where to start"),
    ({"kafka.enable.auto.commit": "true"}, "commitGroup"),
    ({"kafka.fetch.max.wait.ms": "x"}, "kafka.fetch.max.wait.ms cannot be 'x'"),
    ({"kafka.isolation.level": "all"}, "kafka.isolation.level cannot be 'all'"),
    ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
]


@pytest.mark.parametrize(("options", "sentence"), MISTAKES)
def test_each_mistake_has_its_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(SourceError, match=sentence) as caught:
        parse(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingOffsets": "latest"}, "a batch cannot use latest"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "a batch cannot use latest"),
        ({"endingOffsets": "earliest"}, "a batch cannot use earliest"),
    ],
)
def test_a_batch_cannot_start_at_the_end_or_end_at_the_start(
    options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(SourceError, match=sentence):
        parse(is_stream=False, **options)
