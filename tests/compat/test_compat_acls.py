"""Foreign clients where an authorizer is configured: allowed, denied, and changed while running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from moldau.testing.broker_process import BrokerProcess, free_ports

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECONDS_MAX = 30
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED


class Place(NamedTuple):
    sasl: str
    process: BrokerProcess

    def login(self, user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
        }


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Place]:
    (port,) = free_ports(1)
    users = " ".join(f'user_{name}="{name}-secret"' for name in ("root", "alice", "bob"))
    process = BrokerProcess(
        tmp_path,
        port=port,
        overrides={
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{MODULE} required {users};",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:root",
            "group.initial.rebalance.delay.ms": "100",
        },
    )
    with process:
        yield Place(process.bootstrap, process)


def acl(kind: Any, name: str, pattern: Any, user: str, operation: str) -> AclBinding:
    return AclBinding(
        kind,
        name,
        pattern,
        f"User:{user}",
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


def allow(broker: Place, *bindings: AclBinding) -> None:
    admin = AdminClient(broker.login("root"))
    for done in admin.create_acls(list(bindings)).values():
        done.result(SECONDS_MAX)


def send(broker: Place, user: str, topic: str) -> KafkaError | None:
    said: list[Any] = []
    options = {**broker.login(user), "message.timeout.ms": "20000"}
    producer = Producer({**options, "enable.idempotence": "false"})
    producer.produce(topic, b"v", on_delivery=lambda fault, _: said.append(fault))
    producer.flush(SECONDS_MAX)
    (fault,) = said
    return fault  # type: ignore[no-any-return]


def create(broker: Place, user: str, name: str) -> None:
    admin = AdminClient(broker.login(user))
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS_MAX)


def code_of(fault: pytest.ExceptionInfo[KafkaException]) -> int:
    code: int = fault.value.args[0].code()
    return code


def test_a_super_user_may_everything_and_others_nothing(broker: Place) -> None:
    create(broker, "root", "orders")
    assert send(broker, "root", "orders") is None
    fault = send(broker, "alice", "orders")
    assert fault is not None
    assert fault.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException) as refused:
        create(broker, "alice", "mine")
    assert code_of(refused) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    admin = AdminClient(broker.login("alice"))
    (done,) = admin.create_acls([acl(TOPIC, "t", LITERAL, "alice", "READ")]).values()
    with pytest.raises(KafkaException) as refused:
        done.result(SECONDS_MAX)
    assert code_of(refused) == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    # A topic that does not exist is denied like one that does.
    fault = send(broker, "alice", "nowhere")
    assert fault is not None
    assert fault.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert "orders" not in admin.list_topics(timeout=10).topics
    text = broker.process.log_text
    assert "Principal = User:alice is Denied operation = " in text


def test_what_is_allowed_holds_at_once_and_what_is_taken_back_too(broker: Place) -> None:
    create(broker, "root", "orders-1")
    write = acl(TOPIC, "orders-", PREFIXED, "alice", "WRITE")
    allow(broker, write)
    assert send(broker, "alice", "orders-1") is None
    assert send(broker, "bob", "orders-1") is not None
    admin = AdminClient(broker.login("root"))
    asked = AclBindingFilter(
        TOPIC,
        "orders-1",
        ResourcePatternType.MATCH,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert admin.describe_acls(asked).result(SECONDS_MAX) == [write]
    (gone,) = admin.delete_acls([asked]).values()
    assert gone.result(SECONDS_MAX) == [write]
    assert send(broker, "alice", "orders-1") is not None


def test_a_consumer_needs_its_group_and_its_topic(broker: Place) -> None:
    create(broker, "root", "orders")
    assert send(broker, "root", "orders") is None

    def first() -> Any:
        options = {"group.id": "readers", "auto.offset.reset": "earliest"}
        consumer = Consumer({**broker.login("alice"), **options})
        consumer.subscribe(["orders"])
        try:
            for _ in range(SECONDS_MAX):
                found = consumer.poll(1)
                if found is None:
                    continue
                if found.error() is None:
                    consumer.commit(asynchronous=False)
                    return found.value()
                return found.error().code()
        finally:
            consumer.close()
        return None

    assert first() in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    )
    allow(broker, acl(TOPIC, "orders", LITERAL, "alice", "READ"))
    assert first() == KafkaError.GROUP_AUTHORIZATION_FAILED
    allow(broker, acl(GROUP, "readers", LITERAL, "alice", "READ"))
    assert first() == b"v"
    consumer = Consumer({**broker.login("root"), "group.id": "readers"})
    (place,) = consumer.committed([TopicPartition("orders", 0)], timeout=SECONDS_MAX)
    assert place.offset == 1
    consumer.close()


def test_an_idempotent_producer_needs_to_write_somewhere(broker: Place) -> None:
    create(broker, "root", "orders")
    allow(broker, acl(TOPIC, "orders", LITERAL, "alice", "WRITE"))
    said: list[Any] = []
    producer = Producer({**broker.login("alice"), "enable.idempotence": "true"})
    producer.produce("orders", b"v", on_delivery=lambda fault, _: said.append(fault))
    producer.flush(SECONDS_MAX)
    assert said == [None]


def test_lists_outlive_a_kill(broker: Place) -> None:
    create(broker, "root", "orders")
    allow(broker, acl(TOPIC, "orders", LITERAL, "alice", "WRITE"))
    broker.process.kill()
    broker.process.start()
    assert send(broker, "alice", "orders") is None
    assert send(broker, "bob", "orders") is not None
