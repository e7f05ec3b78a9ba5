"""Access control lists and credentials in the tree: Kafka's layout, and brokers that see changes
of one another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from moldau.broker.system_clock import SystemClock
from moldau.cluster.tree.access_control_lists import AccessLists
from moldau.cluster.tree.stored_scram_credentials import UserCredentials
from moldau.cluster.tree.tree_layout import lay_out
from moldau.engine.timers import Timers
from moldau.metadata import acl_paths
from moldau.metadata.embedded import EmbeddedStore
from moldau.metadata.store import MetadataStore, StoreError
from moldau.model.errors import Error
from moldau.security.acl.acl_filters import AclFilter
from moldau.security.acl.acl_model import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from moldau.security.sasl.scram_changes import CredentialChange
from moldau.security.sasl.scram_keys import make_credential
from moldau.testing.shared_tree import SharedTree
from tests.support.services import turns

READ = Entry("User:alice", "*", Operation.READ, Permission.ALLOW)
WRITE = Entry("User:bob", "10.0.0.1", Operation.TWO_PHASE_COMMIT, Permission.DENY)
ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
PREFIX = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "pay-", PatternType.PREFIXED)


def lists(store: MetadataStore, *, is_alone: bool = False) -> AccessLists:
    clock = SystemClock()
    timers = Timers(clock, asyncio.get_running_loop().call_later)
    return AccessLists(store, clock=clock, timers=timers, changed=lambda _: None, is_alone=is_alone)


def users(store: MetadataStore, *, is_alone: bool = False) -> UserCredentials:
    clock = SystemClock()
    timers = Timers(clock, asyncio.get_running_loop().call_later)
    return UserCredentials(store, clock=clock, timers=timers, is_alone=is_alone)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(30):
            await scenario()

    asyncio.run(whole())


def test_a_list_stands_where_kafka_looks_for_it() -> None:
    async def scenario() -> None:
        tree = SharedTree().session()
        here = lists(tree)
        await here.load()
        rows = await here.create([Acl(ORDERS, READ), Acl(PREFIX, WRITE), Acl(ORDERS, READ)])
        assert rows == [None, None, None]
        literal = await tree.get("/kafka-acl/Topic/orders")
        assert json.loads(literal.data) == {
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
        prefixed = await tree.get("/kafka-acl-extended/prefixed/TransactionalId/pay-")
        assert json.loads(prefixed.data)["acls"][0]["operation"] == "TwoPhaseCommit"
        note = await tree.get("/kafka-acl-changes/acl_changes_0000000000")
        assert note.data == b"TOPIC:orders"
        note = await tree.get("/kafka-acl-extended-changes/acl_changes_0000000000")
        assert json.loads(note.data) == {
            "version": 1,
            "resourceType": "TRANSACTIONAL_ID",
            "name": "pay-",
            "patternType": "PREFIXED",
        }

    run(scenario)


def test_other_brokers_follow_every_change() -> None:
    async def scenario() -> None:
        shared = SharedTree()
        here, there = lists(shared.session()), lists(shared.session())
        for each in (here, there):
            await each.load()
            each.start()
        await here.create([Acl(ORDERS, READ), Acl(PREFIX, WRITE)])
        await turns()
        assert set(there.acls) == {Acl(ORDERS, READ), Acl(PREFIX, WRITE)}
        (gone,) = await there.delete([AclFilter(principal="User:alice")])
        assert gone == [Acl(ORDERS, READ)]
        await turns()
        assert set(here.acls) == {Acl(PREFIX, WRITE)}
        assert await shared.session().exists("/kafka-acl/Topic/orders") is None
        for each in (here, there):
            await each.stop()

    run(scenario)


def test_two_brokers_that_write_at_once_both_succeed() -> None:
    async def scenario() -> None:
        shared = SharedTree()
        here, there = lists(shared.session()), lists(shared.session())
        await here.load()
        await there.load()
        await asyncio.gather(
            here.create([Acl(ORDERS, READ)]),
            there.create([Acl(ORDERS, WRITE)]),
        )
        fresh = lists(shared.session())
        await fresh.load()
        assert fresh.acls.entries(ORDERS) == {READ, WRITE}

    run(scenario)


def test_a_broker_alone_keeps_lists_and_no_notes() -> None:
    async def scenario() -> None:
        store = EmbeddedStore()
        here = lists(store, is_alone=True)
        await here.load()
        await here.create([Acl(ORDERS, READ)])
        assert await store.children("/kafka-acl-changes") == []
        again = lists(store, is_alone=True)
        await again.load()
        assert set(again.acls) == {Acl(ORDERS, READ)}

    run(scenario)


@pytest.mark.parametrize("name", ["a/b", ".", "..", "a\x00b", "x" * 20_000, ""])
def test_a_name_that_the_tree_cannot_hold_is_refused_and_the_others_are_stored(name: str) -> None:
    async def scenario() -> None:
        here = lists(SharedTree().session())
        await here.load()
        group = ResourcePattern(ResourceType.GROUP, name)
        refused, stored = await here.create([Acl(group, READ), Acl(ORDERS, READ)])
        assert refused is not None
        assert refused.error is Error.INVALID_REQUEST
        assert stored is None
        assert set(here.acls) == {Acl(ORDERS, READ)}

    run(scenario)


def test_a_filter_that_makes_no_sense_is_refused() -> None:
    async def scenario() -> None:
        here = lists(SharedTree().session())
        await here.load()
        (row,) = await here.delete([AclFilter(type=ResourceType.UNKNOWN)])
        assert not isinstance(row, list)
        assert row.error is Error.INVALID_REQUEST

    run(scenario)


def test_a_list_that_cannot_be_read_stops_the_start() -> None:
    async def scenario() -> None:
        tree = SharedTree().session()
        await lists(tree).load()
        await tree.create("/kafka-acl/Topic/orders", b'{"version":1,"acls":[{"principal":5}]}')
        with pytest.raises(StoreError, match="cannot be read"):
            await lists(tree).load()

    run(scenario)


def test_notes_of_older_releases_are_understood() -> None:
    old = acl_paths.decode_literal_note(b"TransactionalId:a:b")
    assert old == ResourcePattern(ResourceType.TRANSACTIONAL_ID, "a:b")
    assert acl_paths.decode_literal_note(b"TOPIC:t") == ResourcePattern(ResourceType.TOPIC, "t")


CREDENTIAL = make_credential("SCRAM-SHA-256", "wonderland", b"salt")


def test_credentials_stand_beside_the_quotas_of_the_user() -> None:
    async def scenario() -> None:
        tree = SharedTree().session()
        await lay_out(tree)
        quota = b'{"version":1,"config":{"consumer_byte_rate":"5"}}'
        await tree.create("/config/users/al%2Fice", quota)
        here = users(tree)
        await here.load()
        assert await here.alter([CredentialChange("al/ice", "SCRAM-SHA-256", CREDENTIAL)]) == [None]
        assert here.find("al/ice", "SCRAM-SHA-256") == CREDENTIAL
        assert here.find("al/ice", "SCRAM-SHA-512") is None
        stored = json.loads((await tree.get("/config/users/al%2Fice")).data)
        assert stored["version"] == 1
        assert stored["config"]["consumer_byte_rate"] == "5"
        assert stored["config"]["SCRAM-SHA-256"].startswith("salt=c2FsdA==,stored_key=")
        (note,) = await tree.children("/config/changes")
        data = (await tree.get(f"/config/changes/{note}")).data
        assert json.loads(data) == {"version": 2, "entity_path": "users/al%2Fice"}

    run(scenario)


def test_other_brokers_learn_of_new_users() -> None:
    async def scenario() -> None:
        shared = SharedTree()
        await lay_out(shared.session())
        here, there = users(shared.session()), users(shared.session())
        for each in (here, there):
            await each.load()
            each.start()
        await here.alter([CredentialChange("alice", "SCRAM-SHA-256", CREDENTIAL)])
        await turns()
        assert there.find("alice", "SCRAM-SHA-256") == CREDENTIAL
        assert await there.alter([CredentialChange("alice", "SCRAM-SHA-256", None)]) == [None]
        await turns()
        assert here.users == {}
        for each in (here, there):
            await each.stop()

    run(scenario)


def test_credentials_that_cannot_be_read_are_passed_over_without_being_quoted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        tree = SharedTree().session()
        await lay_out(tree)
        secret = "salt=QUJD,stored_key=hunter2,server_key=hunter2,iterations=4096"
        for name, data in {
            "a": json.dumps({"version": 1, "config": {"SCRAM-SHA-256": secret}}),
            "b": '"hunter2"',
            "c": "hunter2",
        }.items():
            await tree.create(f"/config/users/{name}", data.encode())
        here = users(tree)
        await here.load()
        assert here.users == {}
        (refusal,) = await here.alter([CredentialChange("b", "SCRAM-SHA-256", CREDENTIAL)])
        assert refusal is not None
        assert "hunter2" not in str(refusal)

    run(scenario)
    assert len(caplog.records) == 3
    assert "hunter2" not in caplog.text


def test_a_broker_that_has_missed_notes_reads_everything_anew() -> None:
    """It was cut off for so long that others have cleared away what they left for it."""

    async def scenario() -> None:
        shared = SharedTree()
        await lay_out(shared.session())
        tree = shared.session()
        writer, cut_off = lists(tree), lists(shared.session())
        writers_users, users_there = users(tree), users(shared.session())
        for each in (writer, writers_users):
            await each.load()
        await writer.create([Acl(ORDERS, READ), Acl(PREFIX, WRITE)])
        await writers_users.alter([CredentialChange("alice", "SCRAM-SHA-256", CREDENTIAL)])
        await cut_off.load()
        await users_there.load()
        # The changes, and that their notes are gone when it comes back.
        await writer.delete([AclFilter(principal="User:alice")])
        await writers_users.alter([CredentialChange("alice", "SCRAM-SHA-256", None)])
        for place in ("/kafka-acl-changes", "/config/changes"):
            for name in await tree.children(place):
                await tree.delete(f"{place}/{name}")
        other = ResourcePattern(ResourceType.TOPIC, "other")
        await writer.create([Acl(other, READ)])
        await writers_users.alter([CredentialChange("bob", "SCRAM-SHA-256", CREDENTIAL)])
        cut_off.start()
        users_there.start()
        await turns()
        assert set(cut_off.acls) == {Acl(other, READ), Acl(PREFIX, WRITE)}
        assert set(users_there.users) == {"bob"}
        await cut_off.stop()
        await users_there.stop()

    run(scenario)


def test_a_list_that_somebody_has_broken_is_not_changed_by_guess() -> None:
    async def scenario() -> None:
        tree = SharedTree().session()
        here = lists(tree)
        await here.load()
        await tree.create("/kafka-acl/Topic/orders", b"{")
        (row,) = await here.create([Acl(ORDERS, READ)])
        assert row is not None and "this access control list cannot be read" in str(row)
        assert (await tree.get("/kafka-acl/Topic/orders")).data == b"{"

    run(scenario)
