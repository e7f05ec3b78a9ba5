"""Passwords of a broker on ZooKeeper: encrypted by its secret, read by it alone, encrypted anew."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

import pytest

from moldau.broker.access.dynamic_passwords import NO_SECRET, DynamicPasswords
from moldau.config.broker_config import BrokerConfig
from moldau.metadata import paths
from moldau.model.errors import ApiError, Error
from moldau.testing.shared_tree import SharedTree

KEY = "listener.name.sasl_ssl.ssl.keystore.password"
JAAS = "listener.name.sasl_ssl.plain.sasl.jaas.config"
PLAIN = "listener.name.sasl_ssl.ssl.keystore.location"


def passwords(**secrets: str) -> DynamicPasswords:
    named = {f"password.encoder.{name.replace('_', '.')}": text for name, text in secrets.items()}
    config, _ = BrokerConfig.parse({"broker.id": "1", "zookeeper.connect": "zk", **named})
    return DynamicPasswords(config, os.urandom)


def stored(keeper: DynamicPasswords, overrides: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in keeper.encoded("1", overrides).items() if text is not None}


def test_passwords_are_encrypted_and_read_again_and_the_rest_is_as_it_was() -> None:
    keeper = passwords(secret="s")
    changes = {KEY: "store-secret", JAAS: "module required;", PLAIN: "/store"}
    text = stored(keeper, changes)
    assert text[PLAIN] == "/store"
    assert "store-secret" not in text[KEY] and "module" not in text[JAAS]
    assert passwords(secret="s").decoded(text) == changes
    assert keeper.decoded(text) == changes and keeper.decoded(text) == changes


def test_taking_a_password_away_needs_no_secret() -> None:
    assert passwords().encoded("1", {KEY: None}) == {KEY: None}


def test_without_a_secret_a_password_is_refused_as_kafka_refuses_it() -> None:
    with pytest.raises(ApiError, match=NO_SECRET) as refusal:
        passwords().encoded("1", {KEY: "x"})
    assert refusal.value.error is Error.INVALID_REQUEST


def test_a_broker_encrypts_for_itself_only() -> None:
    with pytest.raises(ApiError, match="Unexpected broker id, expected 1 or empty string"):
        passwords(secret="s").encoded("2", {KEY: "x"})
    assert passwords(secret="s").encoded("2", {PLAIN: "/store"}) == {PLAIN: "/store"}


def test_what_cannot_be_read_is_passed_over_and_told_without_being_quoted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = {**stored(passwords(secret="other"), {KEY: "x"}), JAAS: "pl4in", PLAIN: "/store"}
    assert passwords(secret="s").decoded(text) == {PLAIN: "/store"}
    assert passwords().decoded(text) == {PLAIN: "/store"}
    assert "could not be decoded, ignoring" in caplog.text
    assert "pl4in" not in caplog.text


def test_a_broker_that_stands_alone_keeps_them_as_they_are() -> None:
    config, _ = BrokerConfig.parse({})
    keeper = DynamicPasswords(config, os.urandom)
    assert keeper.decoded(keeper.encoded("0", {KEY: "x"})) == {KEY: "x"}  # type: ignore[arg-type]


def test_after_a_change_of_the_secret_everything_is_encrypted_anew_once() -> None:
    async def main() -> None:
        shared = SharedTree()
        store = shared.session()
        for path in ("/config", paths.BROKER_CONFIGS, paths.CONFIG_CHANGES):
            await store.create(path)
        before = stored(passwords(secret="old"), {KEY: "store-secret", PLAIN: "/store"})
        path = paths.config_path("brokers/1")
        await store.create(path, paths.encode_config(before))
        keeper = passwords(secret="new", old_secret="old")
        await keeper.encode_anew(store)
        node = await store.get(path)
        after = paths.decode_config(node.data)
        assert after[PLAIN] == "/store" and after[KEY] != before[KEY]
        assert passwords(secret="new").decoded(after) == {KEY: "store-secret", PLAIN: "/store"}
        (note,) = await store.children(paths.CONFIG_CHANGES)
        told = (await store.get(f"{paths.CONFIG_CHANGES}/{note}")).data
        assert paths.decode_config_change(told) == "brokers/1"
        # The old secret may stay in the settings: nothing is written again.
        await keeper.encode_anew(store)
        assert (await store.get(path)).version == node.version
        await passwords(secret="new").encode_anew(store)
        await store.close()

    asyncio.run(main())


def test_without_a_node_nothing_is_made() -> None:
    async def main() -> None:
        store = SharedTree().session()
        await passwords(secret="new", old_secret="old").encode_anew(store)
        assert await store.exists(paths.config_path("brokers/1")) is None
        await store.close()

    asyncio.run(main())
