from __future__ import annotations

import pytest

from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import ConfigError
from moldau.model.cluster import Endpoint

TWO = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"


def broker(properties: dict[str, str]) -> BrokerConfig:
    return BrokerConfig.parse(properties)[0]


def refusal(properties: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        broker(properties)
    return str(caught.value)


def test_by_default_one_plaintext_listener_is_open_everywhere() -> None:
    config = broker({})
    assert config.bound_endpoints == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.advertised_endpoints == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.inter_broker_listener == "PLAINTEXT"


def test_listeners_have_names_hosts_ports_and_protocols() -> None:
    config = broker(
        {
            "listeners": "inside://127.0.0.1:9092, OUTSIDE://[::1]:9093",
            "listener.security.protocol.map": TWO,
            "advertised.listeners": "INSIDE://broker-1:9092,OUTSIDE://example.org:443",
        }
    )
    assert config.bound_endpoints == (
        Endpoint("INSIDE", "127.0.0.1", 9092, "PLAINTEXT"),
        Endpoint("OUTSIDE", "::1", 9093, "PLAINTEXT"),
    )
    assert config.advertised_endpoints == (
        Endpoint("INSIDE", "broker-1", 9092, "PLAINTEXT"),
        Endpoint("OUTSIDE", "example.org", 443, "PLAINTEXT"),
    )
    assert config.inter_broker_listener == "INSIDE"


def test_the_listener_between_brokers_can_be_named() -> None:
    config = broker(
        {
            "listeners": "INSIDE://:1,OUTSIDE://:2",
            "listener.security.protocol.map": TWO,
            "inter.broker.listener.name": "OUTSIDE",
        }
    )
    assert config.inter_broker_listener == "OUTSIDE"


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", ""])
def test_a_listener_on_all_interfaces_leaves_the_advertised_host_to_the_machine(host: str) -> None:
    config = broker({"listeners": f"PLAINTEXT://{host}:9092"})
    assert config.advertised_endpoints == (Endpoint("PLAINTEXT", "", 9092),)


def test_old_keys_make_a_listener_when_listeners_is_not_given() -> None:
    config = broker({"port": "9095", "host.name": "10.0.0.1"})
    assert config.bound_endpoints == (Endpoint("PLAINTEXT", "10.0.0.1", 9095),)
    assert config.advertised_endpoints == config.bound_endpoints


def test_listeners_wins_over_the_old_keys() -> None:
    config = broker({"port": "9095", "listeners": "PLAINTEXT://:9096"})
    assert config.bound_endpoints[0].port == 9096


def test_old_keys_make_the_advertised_address() -> None:
    config = broker({"port": "9095", "advertised.host.name": "example.org"})
    assert config.advertised_endpoints == (Endpoint("PLAINTEXT", "example.org", 9095),)
    config = broker({"host.name": "10.0.0.1", "advertised.port": "80"})
    assert config.advertised_endpoints == (Endpoint("PLAINTEXT", "10.0.0.1", 80),)


def test_port_zero_is_allowed_more_than_once() -> None:
    config = broker(
        {
            "listeners": "INSIDE://localhost:0,OUTSIDE://localhost:0",
            "listener.security.protocol.map": TWO,
        }
    )
    assert [endpoint.port for endpoint in config.bound_endpoints] == [0, 0]


def test_one_port_may_serve_ipv4_and_ipv6() -> None:
    given = {
        "listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://[::1]:9092",
        "listener.security.protocol.map": TWO,
    }
    assert len(broker(given).bound_endpoints) == 2


@pytest.mark.parametrize(
    "properties, part",
    [
        ({"listeners": ""}, "must name a listener"),
        ({"listeners": "localhost:9092"}, "must look like NAME://host:port"),
        ({"listeners": "PLAINTEXT://localhost"}, "must look like NAME://host:port"),
        ({"listeners": "PLAINTEXT://a b:9092"}, "must look like NAME://host:port"),
        ({"listeners": "PLAINTEXT://a:70000"}, "port must be 0 to 65535"),
        ({"listeners": "PLAINTEXT://a:-1"}, "port must be 0 to 65535"),
        ({"listeners": "INSIDE://a:1"}, "gives no security protocol for INSIDE"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://a:2"}, "names listener PLAINTEXT twice"),
        ({"listeners": "PLAINTEXT://a:1,SSL://a:1"}, "uses port 1 twice"),
        ({"listener.security.protocol.map": "A:TLS"}, "A:TLS is not NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "A:SSL,A:SSL"}, "names A twice"),
        (
            {"advertised.listeners": "SSL://a:1"},
            "listener SSL is not in listeners (PLAINTEXT)",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
            "0.0.0.0 is not an address clients can connect to",
        ),
        ({"inter.broker.listener.name": "X"}, "must be an advertised listener (PLAINTEXT)"),
        (
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "set this or security.inter.broker.protocol, not both",
        ),
        ({"security.inter.broker.protocol": "SSL"}, "no advertised listener speaks it"),
    ],
)
def test_a_bad_listener_is_one_sentence(properties: dict[str, str], part: str) -> None:
    sentence = refusal(properties)
    assert sentence.startswith("Invalid value ")
    assert part in sentence
    assert "\n" not in sentence
