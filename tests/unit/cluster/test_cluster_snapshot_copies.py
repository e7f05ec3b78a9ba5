"""The tree of a cluster in a snapshot, and the tree of the one broker that begins there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from moldau.cluster.snapshots.cluster_snapshots import maker_of
from moldau.cluster.snapshots.tree_copy import TreeCopy, copy_tree
from moldau.cluster.tree import tree_layout
from moldau.metadata import paths
from moldau.metadata.embedded import EmbeddedStore
from moldau.metadata.renamed_cluster import Alone, rename_cluster
from moldau.metadata.store import Create
from moldau.storage.snapshots.cluster_forking import leaders_of
from moldau.storage.snapshots.snapshot_files import Manifest

ID = bytes(range(16))


async def a_tree() -> EmbeddedStore:
    store = EmbeddedStore()
    await tree_layout.lay_out(store)
    await tree_layout.cluster_id_of(store, lambda: "original")
    orders = paths.encode_topic(paths.TopicNode(ID, ((1, 2), (2, 3))))
    block = paths.encode_producer_id_block(paths.ProducerIdBlock(1, 0, 999))
    await store.set_if_version(paths.PRODUCER_ID_BLOCK, block)
    await store.multi(
        [
            Create(paths.topic_path("orders"), orders),
            Create(paths.topic_path("gone"), orders),
            Create(paths.delete_topic_path("gone")),
            Create(paths.topic_config_path("orders"), paths.encode_config({"retention.ms": "7"})),
            Create("/config/users/ann", paths.encode_config({"SCRAM-SHA-256": "secret"})),
            Create("/config/users/ann/clients"),
            Create("/config/users/ann/clients/app", b"{}"),
            Create(paths.broker_path(1), b"{}", ephemeral=True),
            Create(f"{paths.CONFIG_CHANGE_PREFIX}1", b"{}"),
        ]
    )
    return store


def copied() -> TreeCopy:
    async def scenario() -> TreeCopy:
        return await copy_tree(await a_tree())

    return asyncio.run(scenario())


def test_a_copy_has_topics_settings_and_ids_and_nothing_of_running_brokers() -> None:
    copy = copied()
    assert list(copy.topics) == ["orders"]
    assert copy.partitions() == {("orders", 0), ("orders", 1)}
    assert paths.topic_config_path("orders") in copy.nodes
    assert "/config/users/ann/clients/app" in copy.nodes
    assert paths.PRODUCER_ID_BLOCK in copy.nodes
    assert not [
        path for path in copy.nodes if path.startswith((paths.BROKER_IDS, "/config/changes"))
    ]


def test_whoever_begins_there_has_every_partition_and_leads_it(tmp_path: Path) -> None:
    path = tmp_path / "moldau.metadata"
    path.write_bytes(copied().as_file())
    rename_cluster(str(path), "fork", Alone(5, {("orders", 0): 8, ("orders", 1): 3}))

    async def scenario() -> None:
        store = EmbeddedStore(path)
        store.open()
        await tree_layout.lay_out(store)
        found = paths.decode_cluster_id((await store.get(paths.CLUSTER_ID)).data)
        assert found == "fork"
        topic = paths.decode_topic((await store.get(paths.topic_path("orders"))).data)
        assert topic == paths.TopicNode(ID, ((5,), (5,)))
        states = [
            paths.decode_partition_state(
                (await store.get(paths.partition_state_path("orders", number))).data
            )
            for number in range(2)
        ]
        assert [(each.leader, each.leader_epoch, each.isr) for each in states] == [
            (5, 8, (5,)),
            (5, 3, (5,)),
        ]
        user = await store.get("/config/users/ann")
        assert paths.decode_config(user.data) == {"SCRAM-SHA-256": "secret"}
        await store.close()

    asyncio.run(scenario())


def part(node_id: int, led: dict[str, int]) -> Manifest:
    return Manifest("s", 0, "c", node_id, "", ("/",), {}, False, (), {}, "1-ab", led)


def test_of_two_leaders_the_later_one_counts() -> None:
    parts = [part(1, {"a-b-0": 4, "a-b-1": 4}), part(2, {"a-b-0": 5})]
    found = {str(place): row.node_id for place, (_, row) in leaders_of(parts).items()}
    assert found == {"a-b-0": 2, "a-b-1": 1}


def test_a_snapshot_names_its_maker() -> None:
    assert maker_of("12-0a1b") == 12
    assert maker_of("") == -1
