"""What the request log says of bodies: Kafka's keys, records as sizes, no secrets."""

from __future__ import annotations

import json

from moldau.broker.broker_log.request_texts import (
    HIDDEN,
    api_text,
    message_node,
    request_node,
)
from moldau.wire.apis import APIS, request_class, response_class
from moldau.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

INCREMENTAL_ALTER_CONFIGS = 44


def test_a_produce_request_has_the_size_of_its_records() -> None:
    partition = PartitionProduceData(index=3, records=b"12345")
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="t", partition_data=[partition])],
    )
    assert request_node(request, 0, 9) == {
        "transactionalId": None,
        "acks": -1,
        "timeoutMs": 30_000,
        "topicData": [
            {"name": "t", "partitionData": [{"index": 3, "recordsSizeInBytes": 5}]},
        ],
    }
    assert list(request_node(request, 0, 2)) == ["acks", "timeoutMs", "topicData"]


def test_a_tagged_field_that_nobody_has_set_is_left_out() -> None:
    assert message_node(ProduceResponse(), 10) == {"responses": [], "throttleTimeMs": 0}


def test_passwords_of_brokers_are_hidden_and_so_are_values_of_unknown_keys() -> None:
    def change(key: str) -> IncrementalAlterableConfig:
        return IncrementalAlterableConfig(name=key, config_operation=0, value="v")

    keys = [
        "num.io.threads",
        "ssl.keystore.password",
        "listener.name.inside.ssl.key.password",
        "listener.name.inside.max.connections",
        "my.plugin.secret",
    ]
    resource = IncrementalAlterConfigsResource(
        resource_type=4, resource_name="0", configs=[change(key) for key in keys]
    )
    node = request_node(
        IncrementalAlterConfigsRequest(resources=[resource]), INCREMENTAL_ALTER_CONFIGS, 1
    )
    values = [config["value"] for config in node["resources"][0]["configs"]]
    assert values == ["v", HIDDEN, HIDDEN, "v", HIDDEN]


def test_every_message_in_every_version_can_be_told() -> None:
    for row in APIS:
        for kind in (request_class(row.key), response_class(row.key)):
            for version in range(row.version_min, row.version_max + 1):
                json.dumps(message_node(kind(), version))


def test_names_are_kafkas() -> None:
    assert api_text("OffsetForLeaderEpoch") == "OFFSET_FOR_LEADER_EPOCH"
    assert api_text("Produce") == "PRODUCE"
