"""A start knows each topic's own settings before it opens a log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from moldau.broker.topic_settings import TopicSettings
from moldau.cluster.tree.tree_layout import lay_out
from moldau.config.broker_config import BrokerConfig
from moldau.metadata import paths
from moldau.metadata.embedded import EmbeddedStore

COMPACT = {"cleanup.policy": "compact"}


def settings_with(nodes: Mapping[str, bytes], *, is_laid_out: bool = True) -> TopicSettings:
    config, _ = BrokerConfig.parse({"node.id": "1"})

    async def read() -> TopicSettings:
        store = EmbeddedStore()
        if is_laid_out:
            await lay_out(store)
        for path, data in nodes.items():
            await store.create(path, data)
        return await TopicSettings.read(config, store)

    return asyncio.run(read())


def test_a_topic_has_its_own_settings_and_others_the_defaults() -> None:
    node = paths.encode_config({**COMPACT, "internal.segment.bytes": "500"})
    settings = settings_with({paths.topic_config_path("states"): node})
    assert settings.of("states").cleanup_policy == ("compact",)
    assert settings.of("states").segment_bytes == 500
    assert settings.of("others").cleanup_policy == ("delete",)


def test_defaults_that_were_changed_while_the_broker_ran_count_too() -> None:
    everybody = paths.encode_config({"log.cleanup.policy": "compact"})
    own = paths.encode_config({"log.segment.bytes": str(1 << 20)})
    settings = settings_with(
        {f"{paths.BROKER_CONFIGS}/<default>": everybody, f"{paths.BROKER_CONFIGS}/1": own}
    )
    assert settings.of("any").cleanup_policy == ("compact",)
    assert settings.of("any").segment_bytes == 1 << 20


def test_on_a_store_that_nobody_has_used_all_are_defaults() -> None:
    assert settings_with({}, is_laid_out=False).of("any").cleanup_policy == ("delete",)


def test_dynamic_settings_that_make_no_sense_do_not_keep_a_broker_from_starting() -> None:
    broken = paths.encode_config({"log.segment.bytes": "-5"})
    node = paths.encode_config(COMPACT)
    settings = settings_with(
        {f"{paths.BROKER_CONFIGS}/1": broken, paths.topic_config_path("states"): node}
    )
    assert settings.of("states").cleanup_policy == ("compact",)
