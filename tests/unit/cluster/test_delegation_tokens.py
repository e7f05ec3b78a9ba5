"""Delegation tokens in the tree: Kafka's layout, and brokers that see changes of one another."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable

import pytest

from moldau.cluster.tree.stored_delegation_tokens import DelegationTokens
from moldau.engine.timers import Timers
from moldau.metadata import token_paths
from moldau.metadata.embedded import EmbeddedStore
from moldau.metadata.store import MetadataStore
from moldau.model.errors import ApiError, Error
from moldau.security.naming.principal import Principal
from moldau.security.sasl.scram_client import ScramClient
from moldau.security.sasl.scram_server import ScramServer
from moldau.security.tokens.delegation_token import TokenRules, token_password
from moldau.testing.shared_tree import SharedTree
from tests.support.services import turns
from tests.support.virtual_time import ManualClock

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob, the builder")
RULES = TokenRules(max_lifetime_ms=7000, expiry_ms=1000)
NOTES = "/delegation_token/token_changes"


def tokens(
    store: MetadataStore, clock: ManualClock, *, is_alone: bool = False, secret: bytes = b"secret"
) -> DelegationTokens:
    return DelegationTokens(
        store,
        secret,
        lambda: RULES,
        clock=clock,
        timers=Timers(clock, asyncio.get_running_loop().call_later),
        random_bytes=os.urandom,
        new_salt=lambda: b"salt",
        is_alone=is_alone,
    )


def run(scenario: Callable[[ManualClock], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(30):
            await scenario(ManualClock())

    asyncio.run(whole())


def log_in(broker: DelegationTokens, token_id: str, password: str, now_ms: int) -> bool:
    server = ScramServer(
        "SCRAM-SHA-512", lambda name, _: broker.account(name, "SCRAM-SHA-512"), "nonce", b"x"
    )
    client = ScramClient("SCRAM-SHA-512", token_id, password, "abc", is_token=True)
    challenge = server.evaluate(client.first(), now_ms)
    final = client.evaluate(challenge)
    assert final is not None
    client.evaluate(server.evaluate(final, now_ms))
    logged_in = server.logged_in
    assert logged_in is not None
    assert logged_in.is_token_authenticated
    assert logged_in.name == ALICE.name
    return True


def test_a_token_stands_where_kafka_looks_for_it() -> None:
    async def scenario(clock: ManualClock) -> None:
        tree = SharedTree().session()
        here = tokens(tree, clock)
        await here.load()
        now_ms = clock.wall_ms()
        token = await here.create(ALICE, BOB, (BOB,), -1)
        assert len(token.id) == 22
        node = await tree.get(f"/delegation_token/tokens/{token.id}")
        assert json.loads(node.data) == {
            "version": 3,
            "owner": "User%3Aalice",
            "tokenRequester": "User%3Abob%2C%20the%20builder",
            "renewers": ["User%3Abob%2C%20the%20builder"],
            "issueTimestamp": now_ms,
            "maxTimestamp": now_ms + 7000,
            "expiryTimestamp": now_ms + 1000,
            "tokenId": token.id,
        }
        (note,) = await tree.children(NOTES)
        assert note.startswith("token_change_")
        assert (await tree.get(f"{NOTES}/{note}")).data == token.id.encode()
        assert token_paths.decode_token(node.data) == token

    run(scenario)


def test_tokens_of_older_releases_have_no_requester() -> None:
    old = {
        "version": 2,
        "owner": "User%3Aalice",
        "renewers": [],
        "issueTimestamp": 1,
        "maxTimestamp": 3,
        "expiryTimestamp": 2,
        "tokenId": "x",
    }
    token = token_paths.decode_token(json.dumps(old).encode())
    assert (token.requester, token.expires_at_ms, token.max_at_ms) == (ALICE, 2, 3)
    with pytest.raises(ValueError):
        token_paths.decode_token(json.dumps({**old, "version": 4}).encode())


def test_every_broker_follows_and_lets_the_token_in() -> None:
    async def scenario(clock: ManualClock) -> None:
        shared = SharedTree()
        here, there = tokens(shared.session(), clock), tokens(shared.session(), clock)
        for broker in (here, there):
            await broker.load()
            broker.start()
        token = await here.create(ALICE, ALICE, (BOB,), -1)
        await turns()
        mac = there.mac(token.id)
        assert mac == here.mac(token.id)
        assert log_in(there, token.id, token_password(mac), clock.wall_ms())
        assert await there.renew(mac, BOB, 500) == clock.wall_ms() + 500
        await turns()
        assert [each.expires_at_ms for each in here.tokens] == [clock.wall_ms() + 500]
        await here.expire(mac, ALICE, -1)
        await turns()
        assert there.account(token.id, "SCRAM-SHA-512") is None
        with pytest.raises(ApiError) as refusal:
            await there.renew(mac, BOB, 500)
        assert refusal.value.error is Error.DELEGATION_TOKEN_NOT_FOUND
        for broker in (here, there):
            await broker.stop()

    run(scenario)


def test_a_token_that_another_broker_took_away_is_not_brought_back_by_a_renewal() -> None:
    async def scenario(clock: ManualClock) -> None:
        shared = SharedTree()
        here, there = tokens(shared.session(), clock), tokens(shared.session(), clock)
        await here.load()
        await there.load()
        token = await here.create(ALICE, ALICE, (), -1)
        behind = tokens(shared.session(), clock)
        await behind.load()
        await here.expire(here.mac(token.id), ALICE, -1)
        with pytest.raises(ApiError) as refusal:
            await behind.renew(here.mac(token.id), ALICE, -1)
        assert refusal.value.error is Error.DELEGATION_TOKEN_NOT_FOUND
        assert await shared.session().children("/delegation_token/tokens") == []

    run(scenario)


def test_expired_tokens_are_refused_and_swept_away() -> None:
    async def scenario(clock: ManualClock) -> None:
        tree = SharedTree().session()
        here, there = tokens(tree, clock), tokens(tree, clock)
        await here.load()
        token = await here.create(ALICE, ALICE, (), -1)
        await there.load()
        password = token_password(here.mac(token.id))
        assert log_in(here, token.id, password, token.expires_at_ms - 1)
        with pytest.raises(Exception, match="no usable SCRAM-SHA-512 credential"):
            log_in(here, token.id, password, token.expires_at_ms)
        await here.sweep()
        assert list(here.tokens) == [token]
        clock.now_ms += 1001
        await here.sweep()
        assert list(here.tokens) == []
        await there.sweep()
        assert list(there.tokens) == []
        assert await tree.children("/delegation_token/tokens") == []
        assert len(await tree.children(NOTES)) == 2

    run(scenario)


def test_a_broker_alone_keeps_tokens_over_a_restart_and_no_notes() -> None:
    async def scenario(clock: ManualClock) -> None:
        store = EmbeddedStore()
        here = tokens(store, clock, is_alone=True)
        await here.load()
        token = await here.create(ALICE, ALICE, (), -1)
        assert await store.children(NOTES) == []
        again = tokens(store, clock, is_alone=True)
        await again.load()
        assert list(again.tokens) == [token]

    run(scenario)


def test_another_secret_makes_another_password() -> None:
    async def scenario(clock: ManualClock) -> None:
        store = EmbeddedStore()
        here = tokens(store, clock, is_alone=True)
        await here.load()
        token = await here.create(ALICE, ALICE, (), -1)
        other = tokens(store, clock, is_alone=True, secret=b"other")
        await other.load()
        with pytest.raises(Exception, match="Invalid client credentials"):
            log_in(other, token.id, token_password(here.mac(token.id)), clock.wall_ms())

    run(scenario)


def test_what_is_no_token_is_passed_over() -> None:
    async def scenario(clock: ManualClock) -> None:
        tree = SharedTree().session()
        here = tokens(tree, clock)
        await here.load()
        here.start()
        await tree.create("/delegation_token/tokens/bad", b"{")
        other = b'{"version":3,"tokenId":"else"}'
        await tree.create("/delegation_token/tokens/strange", other)
        for note in (b"bad", b"../../brokers", b"\xff", b"gone"):
            await tree.create(f"{NOTES}/token_change_", note, sequential=True)
        await turns()
        assert list(here.tokens) == []
        token = await here.create(ALICE, ALICE, (), -1)
        assert list(here.tokens) == [token]
        await here.stop()

    run(scenario)


def test_a_broker_that_has_missed_notes_reads_everything_anew() -> None:
    async def scenario(clock: ManualClock) -> None:
        shared = SharedTree()
        tree = shared.session()
        here, there = tokens(tree, clock), tokens(shared.session(), clock)
        await here.load()
        gone = await here.create(ALICE, ALICE, (), -1)
        await there.load()
        await here.expire(here.mac(gone.id), ALICE, -1)
        for name in await tree.children(NOTES):
            await tree.delete(f"{NOTES}/{name}")
        made = await here.create(ALICE, ALICE, (), -1)
        there.start()
        await turns()
        assert [token.id for token in there.tokens] == [made.id]
        assert there.account(gone.id, "SCRAM-SHA-512") is None
        await there.stop()

    run(scenario)
