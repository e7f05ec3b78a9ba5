"""Users and access control lists in a cluster on a real ZooKeeper: every broker follows changes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from moldau.admin import Admin
from moldau.testing.broker_process import BrokerProcess
from tests.support.cluster_of_three import ClusterOfThree
from tests.support.eventually import eventually

SECONDS_MAX = 30
ANYTHING = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


@pytest.fixture(scope="module")
def cluster_settings() -> Mapping[str, str]:
    """The brokers speak with one another without a log-in, so nobody has a name here."""
    return {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


def admin_of(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def lists(broker: BrokerProcess) -> set[AclBinding]:
    admin = admin_of(broker)
    return set(admin.describe_acls(ANYTHING).result(SECONDS_MAX))


def test_records_are_written_and_replicated_where_an_authorizer_is_configured(
    cluster: ClusterOfThree,
) -> None:
    cluster.create("replicated")
    cluster.write("replicated", "a", "b")
    eventually(lambda: len(cluster.state("replicated")["isr"]) == 3)


def test_a_list_is_known_to_every_broker_and_stands_where_kafka_looks(
    cluster: ClusterOfThree,
) -> None:
    binding = AclBinding(
        ResourceType.TOPIC,
        "orders-",
        ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    admin = admin_of(cluster.brokers[0])
    admin.create_acls([binding])[binding].result(SECONDS_MAX)
    for broker in cluster.brokers:
        eventually(lambda broker=broker: lists(broker) == {binding})  # type: ignore[misc]
    assert cluster.node("/kafka-acl-extended/prefixed/Topic/orders-") == {
        "version": 1,
        "acls": [
            {
                "principal": "User:alice",
                "permissionType": "Allow",
                "operation": "Read",
                "host": "*",
            }
        ],
    }
    cluster.brokers[1].kill()
    cluster.brokers[1].start()
    assert lists(cluster.brokers[1]) == {binding}
    admin = admin_of(cluster.brokers[1])
    (gone,) = admin.delete_acls([ANYTHING]).values()
    assert gone.result(SECONDS_MAX) == [binding]
    for broker in cluster.brokers:
        eventually(lambda broker=broker: not lists(broker))  # type: ignore[misc]


def test_a_user_is_known_to_every_broker(cluster: ClusterOfThree) -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    change = UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4096), b"x")
    admin = admin_of(cluster.brokers[0])
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(SECONDS_MAX)
    for broker in cluster.brokers:

        def knows(broker: BrokerProcess = broker) -> bool:
            asking = admin_of(broker)
            return "alice" in asking.describe_user_scram_credentials().result(SECONDS_MAX)

        eventually(knows)
    assert "salt=" in cluster.node("/config/users/alice")["config"]["SCRAM-SHA-256"]


def test_quotas_are_known_to_every_broker_and_stand_where_kafka_looks(
    cluster: ClusterOfThree,
) -> None:
    alice, pair = (("user", "alice b"),), (("user", None), ("client-id", "c1"))
    quotas = {alice: {"producer_byte_rate": 1024.0}, pair: {"request_percentage": 12.5}}
    with Admin(bootstrap_servers=cluster.brokers[0].bootstrap) as admin:
        admin.alter_client_quotas(quotas)
    for broker in cluster.brokers:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            eventually(lambda admin=admin: admin.describe_client_quotas() == quotas)  # type: ignore[misc]
    assert cluster.node("/config/users/alice%20b")["config"] == {"producer_byte_rate": "1024"}
    assert cluster.node("/config/users/<default>/clients/c1")["config"] == {
        "request_percentage": "12.5"
    }
    cluster.brokers[1].kill()
    cluster.brokers[1].start()
    with Admin(bootstrap_servers=cluster.brokers[1].bootstrap) as admin:
        assert admin.describe_client_quotas() == quotas
        admin.alter_client_quotas(
            {entity: dict.fromkeys(values) for entity, values in quotas.items()}
        )
    for broker in cluster.brokers:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            eventually(lambda admin=admin: admin.describe_client_quotas() == {})  # type: ignore[misc]


def test_a_follower_copies_whatever_quota_its_user_has(cluster: ClusterOfThree) -> None:
    anybody = (("user", None),)
    with Admin(bootstrap_servers=cluster.brokers[0].bootstrap) as admin:
        admin.alter_client_quotas({anybody: {"consumer_byte_rate": 1.0}})
        cluster.create("copied")
        cluster.write("copied", "a", "b")
        eventually(lambda: len(cluster.state("copied")["isr"]) == 3)
        admin.alter_client_quotas({anybody: {"consumer_byte_rate": None}})
