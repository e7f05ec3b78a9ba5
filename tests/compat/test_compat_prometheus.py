"""Debian's Prometheus scrapes a broker, and what dashboards for Apache Kafka ask gives data.

Asked is for every metric that six dashboards need (`tests/support/dashboard_names.py`), by labels
that they select by. Whole dashboards are evaluated by `python -m tests.support.prometheus FOLDER`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing.broker_process import BrokerProcess, free_port
from tests.integration.test_server_metrics import page
from tests.support.dashboard_names import ABSENT_ALONE, CONFLUENT, STRIMZI
from tests.support.eventually import eventually
from tests.support.prometheus import Prometheus
from tests.support.watched_load import TOPIC, Watchers

pytestmark = pytest.mark.compat

CONFIG = Path(__file__).parents[2] / "config" / "prometheus"
WHERE = 'namespace="kafka",strimzi_io_cluster="moldau",kubernetes_pod_name=~"moldau-.*"'
BY_TOPIC = (
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
)
SELECTED = (
    'kafka_network_requestmetrics_errorspersec{error="NONE"}',
    'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"}',
    'kafka_server_socketservermetrics_connections{client_software_name="moldau"}',
    'kafka_server_produce_byte_rate{client_id="watched-client"}',
    'kafka_server_fetch_byte_rate{client_id="watched-client"}',
    'kafka_server_request_request_time{client_id="watched-client"}',
    'kafka_server_replicafetchermanager_maxlag{clientid="Replica"}',
    f'kafka_log_log_size{{topic="{TOPIC}",partition="0"}}',
)
"""What Confluent's panels select by labels of Kafka's."""


def watched(tmp_path: Path, dialect: str) -> Iterator[tuple[Prometheus, int]]:
    port = free_port()
    overrides = {
        "metrics.http.listener": f"127.0.0.1:{port}",
        "metrics.http.dialect": dialect,
        "num.partitions": "2",
    }
    with (
        BrokerProcess(tmp_path / "broker", overrides=overrides) as broker,
        Watchers(broker.bootstrap),
        Prometheus(tmp_path / "prometheus", f"127.0.0.1:{port}") as prometheus,
    ):
        prometheus.wait_for_scrapes()
        yield prometheus, port


@pytest.fixture(scope="module")
def strimzi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, int]]:
    yield from watched(tmp_path_factory.mktemp("strimzi"), "strimzi")


@pytest.fixture(scope="module")
def confluent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, int]]:
    yield from watched(tmp_path_factory.mktemp("confluent"), "confluent")


def test_what_strimzis_dashboards_ask_gives_data(strimzi: tuple[Prometheus, int]) -> None:
    prometheus, _ = strimzi
    asked = [f"sum({name}{{{WHERE}}}) by (kubernetes_pod_name)" for name in STRIMZI]
    asked += [f'sum(irate({name}{{{WHERE},topic!=""}}[1m])) by (topic)' for name in BY_TOPIC]
    # Ages of unread records are looked up every ten seconds.
    asked.append("sum(kafka_consumergroup_group_lag_seconds) by (topic)")
    eventually(lambda: [each for each in asked if not prometheus.ask(each)] == [])


def test_what_confluents_dashboards_ask_gives_data(confluent: tuple[Prometheus, int]) -> None:
    prometheus, _ = confluent
    where = 'job="kafka-broker",env="production"'
    asked = [f"{name}{{{where}}}" for name in CONFLUENT if name not in ABSENT_ALONE]
    asked += [name.replace("{", f"{{{where},", 1) for name in SELECTED]
    eventually(lambda: [each for each in asked if not prometheus.ask(each)] == [])


def test_what_is_left_out_is_absent_and_not_zero(confluent: tuple[Prometheus, int]) -> None:
    prometheus, _ = confluent
    assert [name for name in ABSENT_ALONE if prometheus.ask(name)] == []
    assert not prometheus.ask('{__name__=~"jvm_.*|.*raft.*|.*tier.*"}')


def test_rates_are_those_of_the_counters(strimzi: tuple[Prometheus, int]) -> None:
    prometheus, port = strimzi
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    (found,) = prometheus.ask(f'{name}{{topic="{TOPIC}"}}')
    now = re.search(rf'^{name}{{topic="{TOPIC}"}} (\d+)$', page(port, "/metrics"), re.MULTILINE)
    assert now is not None
    assert 65 <= float(found["value"][1]) <= float(now[1])


NAMES_OF_KAFKA = (
    "label names should be written in 'snake_case' not 'camelCase'",
    'non-histogram and non-summary metrics should not have "_count" suffix',
    'non-histogram and non-summary metrics should not have "_sum" suffix',
    'counter metrics should have "_total" suffix',
    "metric names should not contain abbreviated units",
)
"""What promtool would name otherwise, and Apache Kafka's dashboards would not find then."""


def promtool(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    assert program is not None, "promtool is needed (Debian: apt-get install prometheus)"
    return subprocess.run(
        [program, *arguments], input=text, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("path", ["/metrics", "/metrics/partitions"])
def test_promtool_has_nothing_against_the_text(path: str, strimzi: tuple[Prometheus, int]) -> None:
    done = promtool("check", "metrics", text=page(strimzi[1], path))
    assert done.returncode in (0, 3), done.stderr  # 3: it would choose other names
    told = [line.split(" ", 1) for line in done.stderr.splitlines()]
    assert all(reason in NAMES_OF_KAFKA for _, reason in told), done.stderr
    assert not [name for name, _ in told if not name.startswith("kafka_")]


def test_the_other_dialect_can_be_read_too(confluent: tuple[Prometheus, int]) -> None:
    done = promtool("check", "metrics", text=page(confluent[1], "/metrics"))
    assert done.returncode in (0, 3), done.stderr


def test_the_alert_rules_and_the_scrape_configuration_are_good() -> None:
    rules = promtool("check", "rules", str(CONFIG / "moldau-alerts.yml"))
    assert rules.returncode == 0, rules.stderr
    config = promtool("check", "config", str(CONFIG / "prometheus.yml"))
    assert config.returncode == 0, config.stderr


def test_every_alert_asks_what_the_broker_tells(strimzi: tuple[Prometheus, int]) -> None:
    text = (CONFIG / "moldau-alerts.yml").read_text()
    names = set(re.findall(r"\b(?:kafka|process)_[a-z0-9_]+", text))
    assert len(names) > 10
    silent = [name for name in sorted(names) if not strimzi[0].ask(f"count({name})")]
    assert silent == []
