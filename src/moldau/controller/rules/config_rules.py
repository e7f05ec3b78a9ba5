"""The rules for changing settings of topics, brokers, groups and subscriptions to client metrics.

Pure, with Kafka's error codes. A change is checked against everything that would hold after it, so
that two settings which contradict each other are refused whichever comes second.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.config.broker_config import LISTENER_PREFIX, BrokerConfig
from moldau.config.config_changes import DEFAULT_BROKER, ConfigChange, ResourceType
from moldau.config.setting_definition import HIDDEN, ConfigError, Scope, Setting
from moldau.config.topic_config import MIRROR_SOURCE, TopicConfig
from moldau.controller.controller_facts import ConfigKind, ConfigsChanged
from moldau.controller.controller_state import ControllerState
from moldau.controller.rules.topic_rules import check_topic_overrides, mirror_source_refused
from moldau.metadata.paths import ENTITY_NAME_LENGTH_MAX, entity_name
from moldau.model.errors import ApiError, Error
from moldau.model.names import topic_name_fault

LOGIN_MODULE = ".sasl.jaas.config"

FOR_ALL_LISTENERS = frozenset(
    {"max.connections", "max.connection.creation.rate", "num.network.threads"}
)
"""What may be set for one listener of all brokers at once."""
READ_AT_START = frozenset({"listeners", "listener.security.protocol.map"})
"""May be set for a running broker of Apache Kafka; here they would have no effect."""
ONLY_BY_LISTENER = frozenset(
    f"ssl.{name}"
    for name in (
        "keystore.type",
        "keystore.location",
        "keystore.password",
        "keystore.key",
        "keystore.certificate.chain",
        "key.password",
        "truststore.type",
        "truststore.location",
        "truststore.password",
        "truststore.certificates",
    )
)
"""What changes while the broker runs only behind `listener.name.<listener>.`"""


def altered(
    state: ControllerState, change: ConfigChange, broker: BrokerConfig | None = None
) -> ConfigsChanged:
    """`broker` is the configuration that settings of brokers and groups are tried on."""
    if change.resource_type == ResourceType.TOPIC:
        return _altered_topic(state, change)
    if change.resource_type == ResourceType.BROKER:
        return _altered_broker(state, change, broker)
    if change.resource_type == ResourceType.GROUP:
        return _altered_group(state, change, broker)
    if change.resource_type == ResourceType.CLIENT_METRICS:
        return _altered_client_metrics(state, change)
    raise ApiError(Error.INVALID_REQUEST, f"Unknown resource type {change.resource_type.value}")


def _altered_topic(state: ControllerState, change: ConfigChange) -> ConfigsChanged:
    name = change.resource_name
    if not name:
        raise ApiError(Error.INVALID_REQUEST, "Default topic resources are not allowed.")
    fault = topic_name_fault(name)
    if fault is not None:
        raise ApiError(Error.INVALID_TOPIC_EXCEPTION, fault)
    if name not in state.cluster.topics:
        raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    before = state.cluster.topic_configs.get(name, {})
    overrides = _after(before, change, TopicConfig.aliases)
    mirror_source = before.get(MIRROR_SOURCE)
    if MIRROR_SOURCE in change.overrides and overrides.get(MIRROR_SOURCE) != mirror_source:
        raise mirror_source_refused()
    if mirror_source is not None:
        # Who replaces all settings does not mean this one.
        overrides[MIRROR_SOURCE] = mirror_source
    check_topic_overrides(overrides)
    return ConfigsChanged(ConfigKind.TOPIC, name, overrides)


def _altered_broker(
    state: ControllerState, change: ConfigChange, broker: BrokerConfig | None
) -> ConfigsChanged:
    name = change.resource_name or DEFAULT_BROKER
    if name != DEFAULT_BROKER:
        _check_broker_name(state, name)
    before = state.cluster.broker_configs.get(name, {})
    overrides = _after(before, change, BrokerConfig.aliases)
    named = {BrokerConfig.aliases.get(key, key) for key, value in change.overrides.items() if value}
    _check_scopes(sorted(named), name)
    try:
        for key, value in overrides.items():
            row = BrokerConfig.rows.get(_without_listener(key))
            if row is not None:
                row.parse(value)
            _check_login_module(key, value)
        if broker is not None:
            for_all = state.cluster.broker_configs.get(DEFAULT_BROKER, {})
            broker.with_overrides({**for_all, **overrides})
    except ConfigError as fault:
        raise ApiError(Error.INVALID_REQUEST, str(fault)) from fault
    is_first = name not in state.cluster.broker_configs
    return ConfigsChanged(ConfigKind.BROKER, name, overrides, is_first)


def _altered_group(
    state: ControllerState, change: ConfigChange, broker: BrokerConfig | None
) -> ConfigsChanged:
    from moldau.config.group_config import validate_group_overrides  # rarely needed

    name = change.resource_name
    if not name:
        raise ApiError(Error.INVALID_REQUEST, "Default group resources are not allowed.")
    _check_length(name)
    overrides = _after(state.cluster.group_configs.get(name, {}), change, {})
    assert broker is not None, "the limits of group settings stand in the broker's"
    try:
        validate_group_overrides(overrides, broker)
    except ConfigError as fault:
        raise ApiError(Error.INVALID_CONFIG, str(fault)) from fault
    is_first = name not in state.cluster.group_configs
    return ConfigsChanged(ConfigKind.GROUP, name, overrides, is_first)


def _altered_client_metrics(state: ControllerState, change: ConfigChange) -> ConfigsChanged:
    from moldau.config.client_metrics_config import check_client_metrics  # rarely needed

    name = change.resource_name
    if not name:
        raise ApiError(Error.INVALID_REQUEST, "Subscription name can't be empty")
    _check_length(name)
    overrides = _after(state.cluster.client_metrics.get(name, {}), change, {})
    check_client_metrics(overrides)
    is_first = name not in state.cluster.client_metrics
    return ConfigsChanged(ConfigKind.CLIENT_METRICS, name, overrides, is_first)


def _check_length(name: str) -> None:
    length = len(entity_name(name))
    if length > ENTITY_NAME_LENGTH_MAX:
        fault = f"The name takes {length} characters in the metadata, of {ENTITY_NAME_LENGTH_MAX}"
        raise ApiError(Error.INVALID_REQUEST, fault)


def _check_broker_name(state: ControllerState, name: str) -> None:
    if not name.isdecimal():
        raise ApiError(Error.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) not in state.cluster.brokers:
        known = ", ".join(str(broker) for broker in sorted(state.cluster.brokers))
        raise ApiError(
            Error.INVALID_REQUEST, f"Unexpected broker id, expected {known}, but received {name}"
        )


def _check_login_module(key: str, value: str) -> None:
    """Raises ConfigError, which does not quote the value: it holds passwords."""
    if not key.startswith(LISTENER_PREFIX) or not key.endswith(LOGIN_MODULE):
        return
    from moldau.security.jaas import JaasError, parse_login_module

    mechanism = key.removesuffix(LOGIN_MODULE).rpartition(".")[2].upper()
    try:
        module = parse_login_module(value)
    except JaasError as fault:
        raise ConfigError(key, HIDDEN, str(fault)) from None
    if not module.serves(mechanism):
        limit = f"{module.class_name} is not the login module of {mechanism}"
        raise ConfigError(key, HIDDEN, limit)


ONLY_AT_START = {"metric.reporters"}
"""Apache Kafka changes it while it runs; here it names code, which the broker's own file may do."""


def _check_scopes(keys: list[str], broker_name: str) -> None:
    rows = {key: BrokerConfig.rows.get(_without_listener(key)) for key in keys}
    fixed = [
        key
        for key, row in rows.items()
        if key in ONLY_AT_START or (row and row.scope is Scope.READ_ONLY)
    ]
    if fixed:
        raise ApiError(
            Error.INVALID_REQUEST, f"Cannot update these configs dynamically: {_listed(fixed)}"
        )
    bare = [key for key in keys if key in ONLY_BY_LISTENER]
    if bare:
        raise ApiError(
            Error.INVALID_REQUEST,
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: {_listed(bare)}",
        )
    own = [key for key, row in rows.items() if _is_of_one_broker(key, row)]
    if own and broker_name == DEFAULT_BROKER:
        raise ApiError(
            Error.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            + _listed(own),
        )
    late = [key for key in keys if key in READ_AT_START]
    if late:
        raise ApiError(
            Error.INVALID_REQUEST,
            f"Cannot update these configs dynamically: {_listed(late)}: a broker opens its "
            "listeners when it starts, change them in its file",
        )


def _is_of_one_broker(key: str, row: Setting | None) -> bool:
    if key.startswith(LISTENER_PREFIX):
        return _without_listener(key) not in FOR_ALL_LISTENERS
    return row is not None and row.scope is Scope.PER_BROKER


def _after(
    before: Mapping[str, str], change: ConfigChange, aliases: Mapping[str, str]
) -> dict[str, str]:
    overrides = {} if change.replace_all else dict(before)
    for given, value in change.overrides.items():
        key = aliases.get(given, given)
        if value is None:
            overrides.pop(key, None)
        else:
            overrides[key] = value
    return overrides


def _without_listener(key: str) -> str:
    """`listener.name.<listener>.<key>` sets the key for one listener."""
    if not key.startswith(LISTENER_PREFIX):
        return key
    return key[len(LISTENER_PREFIX) :].partition(".")[2]


def _listed(keys: list[str]) -> str:
    return f"[{', '.join(keys)}]"
