"""Who was denied what, as the broker's log tells it; and an authorizer of one's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

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

import moldau
from moldau.errors import SecurityDisabledError
from moldau.testing.broker_process import BrokerProcess, BrokerStartError
from tests.support.eventually import eventually

SECONDS_MAX = 30
RULES = """
from moldau.authorization import Authorizer, Operation, ResourceType

class Readers(Authorizer):
    def configure(self, settings):
        self.secret = settings["our.secret.topic"]

    def allows(self, question):
        if question.resource_name == "broken":
            raise RuntimeError("the directory of rights is away")
        if question.resource_type is ResourceType.TOPIC and question.resource_name == self.secret:
            return question.operation is Operation.DESCRIBE
        return True

    def allows_somewhere(self, principal, host, operation, resource_type):
        return True
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    home = tmp_path_factory.mktemp("own")
    (home / "ours.py").write_text(RULES)
    settings = {"authorizer.class.name": "ours:Readers", "our.secret.topic": "secret"}
    path = {"PYTHONPATH": str(home)}
    with BrokerProcess(home / "broker", overrides=settings, environment=path) as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap, "log_level": 0})
        topics = [NewTopic("open", 2, 1), NewTopic("secret", 1, 1)]
        for done in admin.create_topics(topics).values():
            done.result(SECONDS_MAX)
        yield process


def settings_of(broker: BrokerProcess) -> dict[str, str | int]:
    return {"bootstrap.servers": broker.bootstrap, "log_level": 0}


def refusal(broker: BrokerProcess, topic: str) -> int:
    told: list[KafkaError | None] = []
    producer = Producer({**settings_of(broker), "message.timeout.ms": 20_000})
    try:
        producer.produce(topic, b"x", on_delivery=lambda fault, _: told.append(fault))
    except KafkaException as fault:
        return int(fault.args[0].code())
    producer.flush(SECONDS_MAX)
    (fault,) = told
    return 0 if fault is None else fault.code()


def test_an_authorizer_of_ones_own_decides(broker: BrokerProcess) -> None:
    assert refusal(broker, "open") == 0
    assert refusal(broker, "secret") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    line = (
        r"Principal = User:ANONYMOUS is Denied operation = WRITE from host = 127\.0\.0\.1 on "
        r"resource = Topic:LITERAL:secret for request = Produce with resourceRefCount = 1 "
        r"based on rule ours:Readers"
    )
    eventually(lambda: re.search(line, broker.log_text) is not None)


def test_one_that_fails_denies_and_says_so(broker: BrokerProcess) -> None:
    assert refusal(broker, "broken") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    eventually(lambda: "The authorizer ours:Readers has failed, so it is denied" in broker.log_text)
    eventually(lambda: "the directory of rights is away" in broker.log_text)
    assert refusal(broker, "open") == 0


def test_one_that_keeps_no_lists_says_so_to_whoever_asks_for_them(broker: BrokerProcess) -> None:
    sentence = "keeps no lists"
    admin = AdminClient(settings_of(broker))
    entry = AclBinding(
        ResourceType.TOPIC,
        "open",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    any_entry = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for asked in (
        admin.create_acls([entry])[entry],
        admin.delete_acls([any_entry])[any_entry],
    ):
        with pytest.raises(KafkaException, match=sentence) as told:
            asked.result(SECONDS_MAX)
        assert told.value.args[0].code() == KafkaError.SECURITY_DISABLED
    with moldau.Admin({"bootstrap.servers": broker.bootstrap}) as own:
        # librdkafka makes an empty list of this refusal.
        with pytest.raises(SecurityDisabledError, match=sentence):
            own.describe_acls()
        described = own.describe_topics(["open"], include_authorized_operations=True)["open"]
        assert described.authorized_operations is not None


def test_one_that_cannot_be_loaded_stops_the_start_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text(RULES)
    for name, reason in (
        ("missing:Readers", "No module named 'missing'"),
        ("ours:Readers", "KeyError: 'our.secret.topic'"),
    ):
        settings = {"authorizer.class.name": name}
        path = {"PYTHONPATH": str(tmp_path)}
        process = BrokerProcess(tmp_path / name[:4], overrides=settings, environment=path)
        with pytest.raises(BrokerStartError):
            process.start()
        assert "the authorizer cannot be loaded: " in process.log_text
        assert reason in process.log_text and "Traceback" not in process.log_text


@pytest.mark.parametrize("key", ["principal.builder.class", "ssl.engine.factory.class"])
def test_other_classes_stop_the_start(tmp_path: Path, key: str) -> None:
    process = BrokerProcess(tmp_path, overrides={key: "com.example.Ours"})
    with pytest.raises(BrokerStartError, match="such a class cannot be loaded"):
        process.start()


def test_a_denial_counts_the_partitions_that_the_request_names(tmp_path: Path) -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with BrokerProcess(tmp_path, overrides=settings) as broker:
        admin = AdminClient(settings_of(broker))
        admin.create_topics([NewTopic("t", 3, 1)])["t"].result(SECONDS_MAX)
        deny_reading(admin)
        consumer = Consumer({**settings_of(broker), "group.id": "g"})
        consumer.assign([TopicPartition("t", number, 0) for number in range(3)])
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        fault = message.error()
        assert fault is not None and fault.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        consumer.close()
        line = (
            r"is Denied operation = READ from host = 127\.0\.0\.1 on resource = Topic:LITERAL:t "
            r"for request = Fetch with resourceRefCount = 3 based on rule MatchingAcl\(acl="
            r"StandardAcl\[resourceType=TOPIC, resourceName=t, patternType=LITERAL, "
            r"principal=User:\*, host=\*, operation=READ, permissionType=DENY\]\)"
        )
        eventually(lambda: re.search(line, broker.log_text) is not None)


def deny_reading(admin: AdminClient) -> None:
    literal, deny = ResourcePatternType.LITERAL, AclPermissionType.DENY
    read = AclOperation.READ
    describe, allow = AclOperation.ALL, AclPermissionType.ALLOW
    rows = [
        AclBinding(ResourceType.TOPIC, "t", literal, "User:*", "*", read, deny),
        AclBinding(ResourceType.TOPIC, "t", literal, "User:*", "*", describe, allow),
    ]
    for done in admin.create_acls(rows).values():
        done.result(SECONDS_MAX)
