"""Every setting is honoured, or says that it is not needed here and why, or is refused."""

from __future__ import annotations

import ast

import pytest

from moldau.config.broker_config import BrokerConfig
from moldau.config.client_metrics_config import ClientMetricsConfig
from moldau.config.client_settings.admin_settings import AdminConfig
from moldau.config.client_settings.consumer_settings import ConsumerConfig
from moldau.config.client_settings.producer_settings import ProducerConfig
from moldau.config.group_config import GroupConfig
from moldau.config.setting_definition import ConfigError, Settings, setting
from moldau.config.topic_config import TopicConfig
from tests.support import setting_readers
from tests.support.setting_readers import read_names, undeclared

READ = read_names()
READ_BY_BROKERS = read_names(without="client")
TABLES = (
    TopicConfig,
    GroupConfig,
    ClientMetricsConfig,
    ProducerConfig,
    ConsumerConfig,
    AdminConfig,
)


def test_a_broker_setting_that_nobody_reads_says_so() -> None:
    assert undeclared(BrokerConfig, READ, TopicConfig, GroupConfig) == []


@pytest.mark.parametrize("table", TABLES)
def test_a_setting_that_nobody_reads_says_so(table: type[Settings]) -> None:
    assert undeclared(table, READ) == []


@pytest.mark.parametrize("table", [BrokerConfig, TopicConfig])
def test_a_setting_that_says_it_has_no_effect_is_not_read(table: type[Settings]) -> None:
    silent = [row for row in table.rows.values() if row.no_effect or row.refused]
    assert [row.key for row in silent if row.name in READ_BY_BROKERS] == []


def test_a_key_that_nobody_reads_is_found() -> None:
    class Table(Settings):
        nobody_asks: int = setting("nobody.asks", 1, doc="Not read.")
        num_io_threads: int = setting("num.io.threads", 1, doc="Read.")
        port: int = setting("port", 1, doc="Worked into listeners.")
        filled_in: int = setting("filled.in", 1, doc="Only given a default.")
        idle: int = setting("idle", 1, no_effect="nothing needs it", doc="Says so.")

    function = ast.parse(
        "def _resolve(values):\n    if values['filled_in'] is None: values['filled_in'] = 1"
    ).body[0]
    assert isinstance(function, ast.FunctionDef)
    read = READ | setting_readers._resolved(function)
    assert undeclared(Table, read) == ["nobody.asks", "filled.in"]


def test_a_refused_setting_may_be_given_its_default_and_nothing_else() -> None:
    class Table(Settings):
        guard: str = setting("guard", "", refused="nobody stands guard; leave it out", doc="G.")
        key: str | None = setting("key", refused="there is no lock; leave it out", doc="K.")

    assert Table.rows["guard"].parse("") == ""
    for name in ("guard", "key"):
        with pytest.raises(ConfigError, match=f"Invalid value a for configuration {name}: .*; lea"):
            Table.rows[name].parse("a")
    sentence = "G. Refused unless it is the default: nobody stands guard; leave it out."
    assert Table.rows["guard"].sentence == sentence
