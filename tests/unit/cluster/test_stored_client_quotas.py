"""Quotas in the tree: Kafka's layout, brokers that follow one another, nothing left behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable

from moldau.broker.system_clock import SystemClock
from moldau.cluster.tree.stored_client_quotas import ClientQuotas
from moldau.cluster.tree.stored_scram_credentials import UserCredentials
from moldau.cluster.tree.tree_layout import lay_out
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.metadata.embedded import EmbeddedStore
from moldau.metadata.store import MetadataStore
from moldau.model.errors import ApiError
from moldau.security.quotas.quota_changes import QuotaChange
from moldau.security.quotas.quota_entities import QuotaEntity
from moldau.security.quotas.quota_filters import Quotas
from moldau.security.sasl.scram_changes import CredentialChange
from moldau.security.sasl.scram_keys import make_credential
from moldau.testing.shared_tree import SharedTree
from tests.support.services import turns

ALICE: QuotaEntity = (("user", "alice"),)
ONE: QuotaEntity = (("client-id", "c1"),)
RATE = {"producer_byte_rate": 1024.0}


async def nobody(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(names, ())


def quotas(
    store: MetadataStore,
    *,
    changed: Callable[[Quotas], None] = lambda _: None,
    is_alone: bool = False,
) -> ClientQuotas:
    clock = SystemClock()
    timers = Timers(clock, asyncio.get_running_loop().call_later)
    return ClientQuotas(
        store, clock=clock, timers=timers, changed=changed, look_up=nobody, is_alone=is_alone
    )


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(30):
            await scenario()

    asyncio.run(whole())


async def change(on: ClientQuotas, entity: QuotaEntity, **values: float | None) -> None:
    assert await on.alter([QuotaChange(entity, values)]) == [None]


def test_every_entity_stands_where_kafka_looks_for_it() -> None:
    async def scenario() -> None:
        tree = SharedTree().session()
        await lay_out(tree)
        here = quotas(tree)
        await here.load()
        places: dict[str, QuotaEntity] = {
            "users/alice": ALICE,
            "users/<default>": (("user", None),),
            "users/%3Cdefault%3E": (("user", "<default>"),),
            "users/a%2Fb%20%2A": (("user", "a/b *"),),
            "users/clients": (("user", "clients"),),
            "users/clients/clients/clients": (("user", "clients"), ("client-id", "clients")),
            "users/bob/clients/c1": (("user", "bob"), ("client-id", "c1")),
            "users/<default>/clients/<default>": (("user", None), ("client-id", None)),
            "clients/c1": ONE,
            "clients/<default>": (("client-id", None),),
        }
        for place, entity in places.items():
            await change(here, entity, producer_byte_rate=1024.0, request_percentage=12.5)
            node = await tree.get(f"/config/{place}")
            settings = {"producer_byte_rate": "1024", "request_percentage": "12.5"}
            assert json.loads(node.data) == {"version": 1, "config": settings}
            note = (await tree.children("/config/changes"))[-1]
            told = await tree.get(f"/config/changes/{note}")
            assert json.loads(told.data) == {"version": 2, "entity_path": place}
        for host in ("10.0.0.1", None):
            await change(here, (("ip", host),), connection_creation_rate=7.0)
        node = await tree.get("/config/ips/10.0.0.1")
        assert json.loads(node.data)["config"] == {"connection_creation_rate": "7"}
        again = quotas(tree)
        await again.load()
        assert again.quotas == here.quotas
        assert len(again.quotas) == len(places) + 2

    run(scenario)


def test_an_entity_without_quotas_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        tree = SharedTree().session()
        await lay_out(tree)
        here = quotas(tree)
        await here.load()
        pairs: list[QuotaEntity] = [(*ALICE, ("client-id", name)) for name in ("c1", "c2")]
        for pair in pairs:
            await change(here, pair, **RATE)
        await change(here, ALICE, **RATE)
        # A pair still stands below the user: its node has to stay.
        await change(here, ALICE, producer_byte_rate=None)
        assert json.loads((await tree.get("/config/users/alice")).data)["config"] == {}
        for pair in pairs:
            assert await tree.exists("/config/users/alice") is not None
            await change(here, pair, producer_byte_rate=None)
        assert await tree.children("/config/users") == []
        await change(here, ONE, **RATE)
        await change(here, ONE, producer_byte_rate=None)
        assert await tree.children("/config/clients") == []
        assert here.quotas == {}
        # What is not there can be taken away again.
        await change(here, ONE, producer_byte_rate=None)

    run(scenario)


def test_brokers_follow_the_changes_of_one_another() -> None:
    async def scenario() -> None:
        shared = SharedTree()
        await lay_out(shared.session())
        seen: list[Quotas] = []
        here = quotas(shared.session())
        there = quotas(shared.session(), changed=seen.append)
        for each in (here, there):
            await each.load()
            each.start()
        await change(here, ALICE, **RATE)
        await change(here, (*ALICE, *ONE), consumer_byte_rate=5.0)
        await turns(200)
        assert there.quotas == {ALICE: RATE, (*ALICE, *ONE): {"consumer_byte_rate": 5.0}}
        await change(there, ALICE, producer_byte_rate=None)
        await turns(200)
        assert here.quotas == {(*ALICE, *ONE): {"consumer_byte_rate": 5.0}}
        assert seen[0] == {}
        assert seen[-1] == here.quotas
        for each in (here, there):
            await each.stop()

    run(scenario)


def test_two_brokers_change_one_user_at_a_time_and_keep_the_credentials() -> None:
    async def scenario() -> None:
        shared = SharedTree()
        tree = shared.session()
        await lay_out(tree)
        clock = SystemClock()
        timers = Timers(clock, asyncio.get_running_loop().call_later)
        users = UserCredentials(shared.session(), clock=clock, timers=timers)
        here, there = quotas(shared.session()), quotas(shared.session())
        credential = make_credential("SCRAM-SHA-256", "pw", b"salt", 4096)
        made: list[list[ApiError | None]] = await asyncio.gather(
            here.alter([QuotaChange(ALICE, RATE)]),
            there.alter([QuotaChange(ALICE, {"request_percentage": 5.0})]),
            users.alter([CredentialChange("alice", "SCRAM-SHA-256", credential)]),
        )
        assert made == [[None], [None], [None]]
        settings = paths.decode_config((await tree.get("/config/users/alice")).data)
        assert settings.keys() == {"producer_byte_rate", "request_percentage", "SCRAM-SHA-256"}
        await change(here, ALICE, producer_byte_rate=None, request_percentage=None)
        settings = paths.decode_config((await tree.get("/config/users/alice")).data)
        assert settings.keys() == {"SCRAM-SHA-256"}

    run(scenario)


def test_what_cannot_be_read_is_passed_over_and_what_was_known_goes_on_to_hold() -> None:
    async def scenario() -> None:
        shared = SharedTree()
        tree = shared.session()
        await lay_out(tree)
        here = quotas(shared.session())
        await here.load()
        here.start()
        await change(here, ALICE, **RATE)
        bad = [
            ("users/alice", paths.encode_config({"producer_byte_rate": "much"})),
            ("users/%zz", paths.encode_config({"producer_byte_rate": "5"})),
            ("clients/c1", b"no JSON"),
        ]
        for place, data in bad:
            path = f"/config/{place}"
            if await tree.exists(path) is None:
                await tree.create(path)
            await tree.set_if_version(path, data)
            note = paths.encode_config_change(place)
            await tree.create(paths.CONFIG_CHANGE_PREFIX, note, sequential=True)
        await turns(200)
        assert here.quotas == {ALICE: RATE}
        await change(here, (("client-id", "c2"),), **RATE)
        again = quotas(shared.session())
        await again.load()
        assert again.quotas == {(("client-id", "c2"),): RATE}
        await here.stop()

    run(scenario)


def test_a_broker_that_stands_alone_keeps_them_without_notes() -> None:
    async def scenario() -> None:
        store = EmbeddedStore()
        await lay_out(store)
        here = quotas(store, is_alone=True)
        await here.load()
        here.start()
        await change(here, (*ALICE, *ONE), **RATE)
        assert await store.children("/config/changes") == []
        again = quotas(store, is_alone=True)
        await again.load()
        assert again.quotas == {(*ALICE, *ONE): RATE}
        too_long: QuotaEntity = (("user", "x" * 20_000),)
        (refused,) = await here.alter([QuotaChange(too_long, RATE)])
        assert refused is not None

    run(scenario)


def test_a_broker_that_has_missed_notes_reads_everything_anew() -> None:
    async def scenario() -> None:
        shared = SharedTree()
        tree = shared.session()
        await lay_out(tree)
        here, there = quotas(tree), quotas(shared.session())
        await here.load()
        await change(here, ALICE, **RATE)
        await there.load()
        await change(here, ALICE, producer_byte_rate=None)
        for name in await tree.children(paths.CONFIG_CHANGES):
            await tree.delete(f"{paths.CONFIG_CHANGES}/{name}")
        await change(here, ONE, **RATE)
        there.start()
        await turns()
        assert set(there.quotas) == {ONE}
        await there.stop()

    run(scenario)
