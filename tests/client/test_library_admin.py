"""What `moldau.Admin` promises, against a real broker: Moldau's, or Apache Kafka's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau import Admin, Consumer, NewTopic, Producer, TopicPartition, aio, errors
from moldau.admin import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    ScramCredential,
    ScramMechanism,
)
from moldau.client.admin.admin_results import (
    AlterConfig,
    AlterOperation,
    ConfigResource,
    ConfigSource,
    ElectionType,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)
from moldau.client.admin.quotas_admin import QuotaFilter, QuotaMatch
from moldau.client.consumer.consumer_records import OffsetAndMetadata
from moldau.client.shared.background_loop import run
from moldau.records.batch_codec import Record, encode_batch
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

Names = Callable[[str], str]


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap, client_id="tests") as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin, fresh_name: Names) -> str:
    """A topic with two partitions that every request already knows of."""
    name = fresh_name("topic")
    admin.create_topics([NewTopic(name, partitions=2, replication_factor=1)]).check()
    eventually(lambda: name in admin.list_topics())
    return name


def eventually(claim: Callable[[], bool], seconds_max: float = 10) -> None:
    """Brokers of Apache Kafka learn of a change a moment after it was answered."""
    deadline = time.monotonic() + seconds_max
    while not claim():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.01)


def produce(admin: Admin, topic: str, count: int, *, timestamp: int = 1000) -> int:
    """The base offset of a batch whose records are a second apart."""
    rows = [Record(i, timestamp + 1000 * i, None, b"v", ()) for i in range(count)]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=0, records=encode_batch(rows))],
            )
        ],
    )

    async def send() -> int:
        core = admin._client._core
        await core.cluster.refresh([topic])
        led = core.cluster.leader(topic, 0)
        assert led is not None
        response = await core.network.call(led[0], request, version_max=12)
        row = response.responses[0].partition_responses[0]
        assert row.error_code == 0
        return int(row.base_offset)

    return run(send())


def test_a_topic_is_created_listed_described_and_deleted(admin: Admin, fresh_name: Names) -> None:
    name = fresh_name("life")
    new = NewTopic(name, partitions=3, replication_factor=1, configs={"retention.ms": "123456"})
    created = admin.create_topics([new]).check()[name]
    assert (created.partitions, created.replication_factor) == (3, 1)
    assert created.configs["retention.ms"] == "123456"
    eventually(lambda: name in admin.list_topics())

    described = admin.describe_topics([name]).check()[name]
    assert described.topic_id == created.topic_id == admin.list_topics()[name].topic_id
    assert [row.partition for row in described.partitions] == [0, 1, 2]
    first = described.partitions[0]
    assert first.replicas == first.isr == [first.leader]
    assert not described.is_internal

    assert admin.delete_topics([name]).check() == {name: None}
    eventually(lambda: name not in admin.list_topics())


def test_errors_of_one_topic_leave_the_others_alone(admin: Admin, fresh_name: Names) -> None:
    good, bad = fresh_name("good"), "not/allowed"
    results = admin.create_topics([NewTopic(good), NewTopic(bad)], raise_errors=False)
    assert results.keys() == {good}
    assert isinstance(results.errors[bad], errors.InvalidTopicError)
    assert list(results.outcomes) == [good, bad]
    with pytest.raises(errors.InvalidTopicError):
        results.check()


def test_an_error_is_raised_unless_results_were_asked_for(admin: Admin, fresh_name: Names) -> None:
    good, bad, worse = fresh_name("good"), "not/allowed", "not/this"
    with pytest.raises(errors.InvalidTopicError) as caught:
        admin.create_topics([good, bad, worse])
    assert len(caught.value.__notes__) == 1 and worse in caught.value.__notes__[0]
    with pytest.raises(errors.TopicExistsError):
        admin.create_topics([good])
    absent = fresh_name("absent")
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.describe_topics([absent])
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.delete_topics([absent])


def test_validate_only_creates_nothing(admin: Admin, fresh_name: Names) -> None:
    name = fresh_name("thought")
    assert admin.create_topics([NewTopic(name, partitions=2)], validate_only=True).check()
    assert name not in admin.list_topics()


def test_a_topic_can_be_placed_by_hand_and_deleted_by_id(admin: Admin, fresh_name: Names) -> None:
    name = fresh_name("placed")
    broker = admin.describe_cluster().nodes[0].id
    created = admin.create_topics([NewTopic(name, assignments={0: [broker], 1: [broker]})])
    topic_id = created.check()[name].topic_id
    eventually(lambda: name in admin.list_topics())
    assert len(admin.describe_topics([name]).check()[name].partitions) == 2
    assert admin.delete_topics([topic_id]).check() == {topic_id: None}


def test_partitions_are_added(admin: Admin, topic: str) -> None:
    broker = admin.describe_cluster().nodes[0].id
    assert admin.create_partitions({topic: 3}).check() == {topic: None}
    assert admin.create_partitions({topic: NewPartitions(4, [[broker]])}).check()
    eventually(lambda: len(admin.describe_topics([topic]).check()[topic].partitions) == 4)
    with pytest.raises(errors.InvalidPartitionsError):
        admin.create_partitions({topic: 2})


def test_settings_of_a_topic_are_changed_one_by_one(admin: Admin, topic: str) -> None:
    resource = ConfigResource.topic(topic)
    changes = {"retention.ms": "1000", "cleanup.policy": "compact"}
    assert admin.incremental_alter_configs({resource: changes}).check() == {resource: None}
    append = AlterConfig("cleanup.policy", "delete", AlterOperation.APPEND)
    admin.incremental_alter_configs({resource: [append]}).check()

    def value(key: str) -> str | None:
        return admin.describe_configs([resource], keys=[key]).check()[resource][key].value

    eventually(lambda: value("cleanup.policy") == "compact,delete")
    entries = admin.describe_configs([resource], include_synonyms=True).check()[resource]
    assert entries["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert entries["retention.ms"].synonyms[0].value == "1000"
    assert entries["segment.bytes"].is_default

    admin.incremental_alter_configs({resource: {"retention.ms": None}}).check()
    eventually(lambda: value("retention.ms") == "604800000")
    with pytest.raises(errors.InvalidConfigurationError):
        admin.incremental_alter_configs({resource: {"segment.bytes": "x"}})


def test_settings_of_a_broker_are_described_by_itself(admin: Admin) -> None:
    resource = ConfigResource.broker(admin.describe_cluster().nodes[0].id)
    entries = admin.describe_configs([resource], include_documentation=True).check()[resource]
    assert entries["log.dirs"].is_read_only
    assert entries["listeners"].value
    assert entries["log.segment.bytes"].documentation


def test_all_settings_of_a_topic_can_be_replaced(admin: Admin, topic: str) -> None:
    resource = ConfigResource.topic(topic)
    try:
        results = admin.alter_configs({resource: {"retention.ms": "5000"}})
    except errors.UnsupportedVersionError:
        pytest.skip("the broker does not serve AlterConfigs")
    assert results.check() == {resource: None}


def test_offsets_are_found_by_position_and_by_time(admin: Admin, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    produce(admin, topic, 5, timestamp=1000)

    def offset(spec: OffsetSpec | int) -> int:
        return admin.list_offsets({tp: spec}).check()[tp].offset

    assert offset(OffsetSpec.EARLIEST) == 0
    assert offset(OffsetSpec.LATEST) == 5
    assert offset(2500) == 2
    assert offset(10**12) == -1
    assert offset(OffsetSpec.MAX_TIMESTAMP) == 4
    stable = admin.list_offsets({tp: OffsetSpec.LATEST}, read_committed=True).check()[tp]
    assert stable.offset == 5


def test_offsets_of_an_unknown_topic_are_an_error_soon(admin: Admin, fresh_name: Names) -> None:
    tp = TopicPartition(fresh_name("absent"), 0)
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.list_offsets({tp: OffsetSpec.LATEST})


def test_records_are_deleted_up_to_an_offset(admin: Admin, topic: str) -> None:
    tp, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce(admin, topic, 5)
    assert admin.delete_records({tp: 3, empty: -1}).check() == {tp: 3, empty: 0}
    assert admin.list_offsets({tp: OffsetSpec.EARLIEST}).check()[tp].offset == 3
    with pytest.raises(errors.OffsetOutOfRangeError):
        admin.delete_records({tp: 99})


def test_offsets_of_a_group_are_set_listed_and_deleted(
    admin: Admin, topic: str, fresh_name: Names
) -> None:
    group, tp, other = fresh_name("group"), TopicPartition(topic, 0), TopicPartition(topic, 1)
    commits = {tp: OffsetAndMetadata(3, "note"), other: 0}
    assert admin.alter_group_offsets(group, commits).check() == {tp: None, other: None}
    listed = admin.list_group_offsets([group]).check()[group]
    assert listed[tp] is not None
    assert listed[tp][:2] == (3, "note")

    assert admin.delete_group_offsets(group, [tp]).check() == {tp: None}
    some = admin.list_group_offsets({group: [tp, other]}).check()[group]
    assert some[tp] is None
    assert some[other] is not None

    listing = {row.group_id: row for row in admin.list_groups()}[group]
    assert listing.is_simple
    assert listing.state == "Empty"
    described = admin.describe_groups([group]).check()[group]
    assert (described.state, described.members) == ("Empty", [])
    assert described.coordinator is not None

    assert admin.delete_groups([group]).check() == {group: None}
    with pytest.raises(errors.GroupIdNotFoundError):
        admin.delete_groups([group])
    assert group not in {row.group_id for row in admin.list_groups(states=["Empty"])}


def test_the_cluster_tells_its_brokers_and_versions(admin: Admin, bootstrap: str) -> None:
    cluster = admin.describe_cluster()
    assert cluster.cluster_id
    assert cluster.controller in cluster.nodes
    assert bootstrap.endswith(str(cluster.nodes[0].port))
    versions = admin.api_versions(cluster.nodes[0].id)
    assert versions[18].min_version == 0
    assert versions[1].max_version >= 12
    assert admin.describe_features().finalized_epoch >= -1


def test_log_directories_tell_the_size_of_replicas(admin: Admin, topic: str) -> None:
    produce(admin, topic, 3)
    tp = TopicPartition(topic, 0)
    for directories in admin.describe_log_dirs().check().values():
        (directory,) = [each for each in directories.values() if tp in each.replicas]
        assert directory.replicas[tp].size_bytes > 0
        assert Path(directory.path).is_absolute()
        assert directory.error is None


def test_a_broker_that_does_not_exist_is_an_error_of_its_own(admin: Admin) -> None:
    with pytest.raises(errors.BrokerNotAvailableError):
        admin.describe_log_dirs([777], timeout=2)


def test_a_producer_is_described_and_fenced_and_its_transaction_seen(
    admin: Admin, topic: str, fresh_name: Names
) -> None:
    name = fresh_name("txn")
    tp = TopicPartition(topic, 0)
    first = admin.fence_producers([name]).check()[name]
    again = admin.fence_producers([name]).check()[name]
    assert first.producer_id == again.producer_id
    assert again.producer_epoch > first.producer_epoch
    described = admin.describe_transactions([name]).check()[name]
    assert described.producer_id == first.producer_id
    assert described.state == "Empty"
    listed = [row for rows in admin.list_transactions().values() for row in rows]
    assert name in {row.transactional_id for row in listed}
    assert admin.describe_producers([tp]).check() == {tp: []}
    absent = fresh_name("absent")
    with pytest.raises(errors.TransactionalIdNotFoundError):
        admin.describe_transactions([absent])


def test_preferred_leaders_need_no_election_on_one_broker(admin: Admin, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    try:
        found = admin.elect_leaders(ElectionType.PREFERRED, [tp], raise_errors=False)
    except errors.UnsupportedVersionError:
        pytest.skip("the broker does not serve ElectLeaders")
    assert isinstance(found.errors[tp], errors.ElectionNotNeededError)


def test_no_reassignment_is_under_way_on_one_broker(admin: Admin) -> None:
    try:
        assert admin.list_partition_reassignments() == {}
    except errors.UnsupportedVersionError:
        pytest.skip("the broker does not serve ListPartitionReassignments")


def test_topics_are_among_what_has_settings(admin: Admin, topic: str) -> None:
    try:
        found = admin.list_config_resources([ResourceType.TOPIC])
    except errors.UnsupportedVersionError:
        pytest.skip("the broker does not serve ListConfigResources")
    assert ConfigResource.topic(topic) in found


def test_access_control_lists_are_made_listed_and_deleted(admin: Admin, fresh_name: Names) -> None:
    user = f"User:{fresh_name('user')}"
    acl = Acl(user, AclResourceType.TOPIC, "orders", AclOperation.READ)
    try:
        assert admin.create_acls([acl]).check() == {acl: None}
    except (errors.UnsupportedVersionError, errors.SecurityDisabledError):
        pytest.skip("the broker has no access control lists")
    mine = AclFilter(principal=user)
    eventually(lambda: admin.describe_acls(mine) == [acl])
    assert admin.delete_acls([mine]).check() == {mine: [acl]}
    eventually(lambda: admin.describe_acls(mine) == [])


def test_credentials_are_set_and_deleted(admin: Admin, fresh_name: Names) -> None:
    user = fresh_name("user")
    try:
        admin.upsert_user_scram_credential(user, "secret", iterations=4096)
    except errors.UnsupportedVersionError:
        pytest.skip("the broker keeps no credentials")
    expected = [ScramCredential(ScramMechanism.SCRAM_SHA_256, 4096)]
    eventually(lambda: admin.describe_user_scram_credentials([user]).get(user) == expected)
    admin.delete_user_scram_credential(user)
    with pytest.raises(errors.ResourceNotFoundError):
        admin.delete_user_scram_credential(user)


def test_quotas_are_set_and_removed(admin: Admin, fresh_name: Names) -> None:
    user = fresh_name("user")
    entity = (("user", user),)
    try:
        changed = admin.alter_client_quotas({entity: {"producer_byte_rate": 1000.0}})
    except errors.UnsupportedVersionError:
        pytest.skip("the broker keeps no quotas")
    assert changed.check() == {entity: None}
    mine = [QuotaFilter("user", QuotaMatch.EXACT, user)]
    expected = {entity: {"producer_byte_rate": 1000.0}}
    eventually(lambda: admin.describe_client_quotas(mine) == expected)
    admin.alter_client_quotas({entity: {"producer_byte_rate": None}}).check()
    eventually(lambda: admin.describe_client_quotas(mine) == {})


def test_tokens_are_refused_over_a_connection_without_a_log_in(admin: Admin) -> None:
    refusals = (
        errors.UnsupportedVersionError,
        errors.DelegationTokenDisabledError,
        errors.UnsupportedByAuthenticationError,
    )
    with pytest.raises(refusals):
        admin.create_delegation_token(renewers=["User:alice"])
    with pytest.raises(ValueError, match="User:name"):
        admin.create_delegation_token(renewers=["alice"])


def test_a_hanging_transaction_is_seen_and_aborted_by_hand(
    admin: Admin, topic: str, bootstrap: str, fresh_name: Names
) -> None:
    name, tp = fresh_name("hanging"), TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"v", partition=0).result(10)
        described = admin.describe_transactions([name]).check()[name]
        assert (described.state, described.partitions) == ("Ongoing", [tp])
        (state,) = admin.describe_producers([tp]).check()[tp]
        assert state.transaction_start_offset == 0
        latest = {tp: OffsetSpec.LATEST}
        assert admin.list_offsets(latest, read_committed=True).check()[tp].offset == 0

        epoch = max(0, state.coordinator_epoch)
        admin.abort_transaction(tp, state.producer_id, state.producer_epoch, epoch)
        assert admin.list_offsets(latest, read_committed=True).check()[tp].offset == 2
        admin.force_terminate_transaction(name)


def test_members_of_a_group_are_described_and_made_to_leave(
    admin: Admin, topic: str, bootstrap: str, fresh_name: Names
) -> None:
    group = fresh_name("group")
    settings = {"bootstrap_servers": bootstrap, "group_id": group, "client_id": "worker"}
    with Consumer(group_instance_id="one", **settings) as consumer:
        consumer.subscribe([topic])
        eventually(lambda: len(consumer.poll(0.1)) == 0 and len(consumer.assignment()) == 2)
        described = admin.describe_groups([group]).check()[group]
        assert described.state == "Stable"
        (member,) = described.members
        assert (member.group_instance_id, member.client_id) == ("one", "worker")
        assert member.assignment == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        assert member.subscription == [topic]
        with pytest.raises(errors.GroupNotEmptyError):
            admin.delete_groups([group])
        assert admin.remove_members_from_group(group, ["one"]).check() == {"one": None}
        assert admin.describe_groups([group]).check()[group].members == []


def test_the_asyncio_twin_has_the_same_methods(bootstrap: str, fresh_name: Names) -> None:
    async def scenario() -> None:
        name = fresh_name("aio")
        async with aio.Admin({"bootstrap.servers": bootstrap}) as admin:
            (await admin.create_topics([name])).check()
            await admin._core.cluster.partitions_for(name, 5000)
            assert name in await admin.list_topics()
            both = await asyncio.gather(admin.list_topics(), admin.describe_cluster())
            assert name in both[0]

    asyncio.run(scenario())
    public = {name for name in dir(Admin) if not name.startswith("_")}
    assert public <= set(dir(aio.Admin))


def test_an_unreachable_cluster_is_a_time_out_that_says_why() -> None:
    unreachable = Admin(bootstrap_servers="127.0.0.1:1")
    with (
        unreachable as admin,
        pytest.raises(errors.KafkaTimeoutError, match=r"127\.0\.0\.1:1 could"),
    ):
        admin.list_topics(timeout=0.3)


def test_an_admin_outlives_the_restart_of_its_broker(tmp_path: Path, is_moldau: bool) -> None:
    if not is_moldau:
        pytest.skip("restarts a broker of its own")
    broker = BrokerProcess(tmp_path)
    with broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(["kept"]).check()
        broker.kill()
        with pytest.raises(errors.KafkaTimeoutError):
            admin.describe_cluster(timeout=0.1)
        broker.start()
        assert "kept" in admin.list_topics()


def test_a_closed_admin_says_so(bootstrap: str) -> None:
    admin = Admin(bootstrap_servers=bootstrap)
    admin.close()
    admin.close()
    with pytest.raises(errors.IllegalStateError):
        admin.list_topics()
