"""The table of metrics, its names, its text and who reads it."""

from __future__ import annotations

import re

import pytest

from moldau.broker.monitoring.metric_readers import READERS
from moldau.metrics.dialects import Dialect, metrics_in, written
from moldau.metrics.duration_cells import DurationCells, summary
from moldau.metrics.metric_definition import counter, gauge, prometheus_name, quantiles
from moldau.metrics.prometheus_text import family
from moldau.metrics.table.all_metrics import METRICS
from moldau.metrics.traffic_cells import Traffic


def test_every_row_has_one_reader_and_every_reader_a_row() -> None:
    assert {row.bean for row in METRICS} == set(READERS)
    for dialect in Dialect:
        rows = metrics_in(dialect, METRICS)
        assert len(rows) == len({written(row, dialect).name for row in rows})


@pytest.mark.parametrize("row", METRICS, ids=lambda row: row.prometheus_name)
def test_every_row_can_be_told(row) -> None:  # type: ignore[no-untyped-def]
    assert re.fullmatch(r"[a-z][a-z0-9_]*", row.prometheus_name)
    assert row.sentence.endswith(".")
    assert row.counted


@pytest.mark.parametrize(
    ("bean", "is_counter", "name"),
    [
        (
            "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec",
            True,
            "kafka_server_brokertopicmetrics_messagesin_total",
        ),
        (
            "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
            False,
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        ),
        (
            "kafka.server:type=socket-server-metrics/connection-count",
            False,
            "kafka_server_socket_server_metrics_connection_count",
        ),
        (
            "kafka.server:type=KafkaServer,name=linux-disk-read-bytes",
            True,
            "kafka_server_kafkaserver_linux_disk_read_bytes",
        ),
        ("process_open_fds", False, "process_open_fds"),
    ],
)
def test_names_follow_from_the_mbean(bean: str, is_counter: bool, name: str) -> None:
    assert prometheus_name(bean, is_counter=is_counter) == name


def test_values_of_labels_are_escaped() -> None:
    row = gauge("some_number", ("path",), "Some.", "here")
    text = "".join(family(row, [(('a"b\\c\nd',), 1), ((), True)]))
    assert text == (
        "# HELP some_number Some.\n# TYPE some_number gauge\n"
        'some_number{path="a\\"b\\\\c\\nd"} 1\nsome_number 1\n'
    )


def test_a_value_of_a_label_is_no_longer_than_enough_and_stays_itself() -> None:
    row = gauge("some_number", ("consumergroup",), "Some.", "here")
    ids = ("g" * 500, "g" * 501, "g" * 30_000 + "a", "g" * 30_000 + "b")
    told = [line.split('"')[1] for line in list(family(row, [((each,), 1) for each in ids]))[1:]]
    assert told[0] == "g" * 500
    assert [len(each) for each in told[1:]] == [513] * 3
    assert len(set(told)) == 4


def test_what_has_no_samples_is_not_named_and_rests_are_kept() -> None:
    row = counter("some_total", (), "Some.", "here")
    assert list(family(row, [])) == []
    assert list(family(row, [None])) == [""]


def test_quantiles_and_their_count_are_a_summary() -> None:
    cells = DurationCells()
    for _ in range(100):
        cells.add(8_000_000)
    row = quantiles("some_ms", ("request",), "Some.", "here")
    lines = "".join(family(row, [(("Fetch",), summary([cells]))])).splitlines()
    assert lines[1] == "# TYPE some_ms summary"
    assert lines[2].startswith('some_ms{request="Fetch",quantile="0.50"} ')
    assert lines[-1] == 'some_ms_count{request="Fetch"} 100'
    assert len(lines) == 9


def test_the_other_dialect_has_its_own_names_and_no_types() -> None:
    row = counter(
        "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec", ("topic",), "Some.", "here"
    )
    text = "".join(family(row, [(("t",), 3)], Dialect.CONFLUENT))
    assert "# TYPE kafka_server_brokertopicmetrics_bytesinpersec untyped\n" in text
    assert text.endswith('kafka_server_brokertopicmetrics_bytesinpersec{topic="t"} 3\n')
    sockets = gauge(
        "kafka.server:type=socket-server-metrics/connection-count",
        ("listener", "networkProcessor"),
        "Some.",
        "here",
    )
    assert written(sockets, Dialect.CONFLUENT)[:3] == (
        "kafka_server_socketservermetrics_connection_count",
        "gauge",
        ("listener", "network_processor"),
    )
    times = quantiles("kafka.network:type=RequestMetrics,name=TotalTimeMs", ("request",), "S.", "h")
    lines = "".join(family(times, [(("Fetch",), summary([]))], Dialect.CONFLUENT)).splitlines()
    assert lines[-1] == 'kafka_network_requestmetrics_totaltimems{request="Fetch"} 0'


def test_quantiles_are_within_half_an_octave() -> None:
    cells = DurationCells()
    for ms in range(1, 1001):
        cells.add(ms * 1_000_000)
    found = dict(summary([cells]).quantiles)
    for name, truth in (("0.50", 500), ("0.95", 950), ("0.99", 990), ("0.999", 999)):
        assert truth / 1.42 <= found[name] <= truth * 1.42


def test_quantiles_forget_what_the_count_keeps() -> None:
    cells = DurationCells()
    cells.add(5_000_000_000)
    cells.turn()
    cells.add(1_000_000)
    assert dict(summary([cells]).quantiles)["0.999"] > 1000
    cells.turn()
    assert dict(summary([cells]).quantiles)["0.999"] < 2
    assert summary([cells]).number == 2
    cells.turn()
    assert summary([cells]).quantiles[0] == ("0.50", 0.0)


def test_what_took_no_time_counts_for_the_quantiles() -> None:
    waited, answered = DurationCells(), DurationCells()
    waited.add(1_000_000_000)
    for _ in range(99):
        answered.add(50_000)
    told = summary([waited], [answered])
    assert told.number == 100
    assert dict(told.quantiles)["0.98"] == 0
    assert dict(told.quantiles)["0.999"] > 700


def test_cells_of_a_topic_go_with_its_last_replica_and_stay_in_the_sum() -> None:
    traffic = Traffic()
    first, second = traffic.join("t"), traffic.join("t")
    assert first is second
    first.messages_in += 3
    traffic.leave("t")
    assert traffic.of("t") is first
    traffic.leave("t")
    assert traffic.of("t") is None
    traffic.join("t").messages_in += 1
    assert traffic.total("messages_in") == 4
    assert [(topic, cells.messages_in) for topic, cells in traffic.topics()] == [("t", 1)]
