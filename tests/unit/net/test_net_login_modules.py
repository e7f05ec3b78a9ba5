"""Log-in modules from a listener's settings and from a JAAS file, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import ConfigError
from moldau.net.sasl.login_modules import login_module, sections_of

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def config_with(file: Path | None = None, **settings: str) -> BrokerConfig:
    given = {"log.dirs": "/nowhere", **{k.replace("__", "."): v for k, v in settings.items()}}
    if file is not None:
        given["java.security.auth.login.config"] = str(file)
    return BrokerConfig.parse(given)[0]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "jaas.conf"
    path.write_text(text)
    return path


def user(config: BrokerConfig, listener: str, mechanism: str) -> str | None:
    module = login_module(config, listener, mechanism)
    return None if module is None else module.options["username"]


def test_the_listeners_own_section_goes_before_the_common_one(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        f"""
        KafkaServer {{ {PLAIN} required username="common"; {SCRAM} required username="s"; }};
        brokers.KafkaServer {{ {PLAIN} required username="own"; }};
        """,
    )
    config = config_with(file)
    assert user(config, "BROKERS", "PLAIN") == "own"
    assert user(config, "BROKERS", "SCRAM-SHA-256") is None
    assert user(config, "CLIENTS", "PLAIN") == "common"
    assert user(config, "CLIENTS", "SCRAM-SHA-512") == "s"


def test_a_setting_goes_before_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, f'KafkaServer {{ {PLAIN} required username="file"; }};')
    key = "listener__name__brokers__plain__sasl__jaas__config"
    config = config_with(file, **{key: f'{PLAIN} required username="setting";'})
    assert user(config, "BROKERS", "PLAIN") == "setting"


def test_without_a_file_nothing_is_said() -> None:
    assert sections_of(config_with()) == {}
    assert login_module(config_with(), "BROKERS", "PLAIN") is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            'KafkaServer { com.sun.security.auth.module.JndiLoginModule required a="hush"; };',
            "the login module of a JAAS entry is not one of",
        ),
        (f'KafkaServer {{ {PLAIN} required username="hush" }};', "not written as key=value"),
        (
            f'KafkaServer {{ {PLAIN} required a="hush"; {PLAIN} required a="hush"; }};',
            "more than one login module for PLAIN",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused_without_the_secret(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        login_module(config_with(written(tmp_path, text)), "BROKERS", "PLAIN")
    assert sentence in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the file cannot be read: No such file or directory"):
        sections_of(config_with(tmp_path / "none"))
