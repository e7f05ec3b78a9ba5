"""Proposals about the ISR on their way to the controller: none is left lying."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.model.names import BrokerId
from moldau.net.peers import PeerCalls
from moldau.replication.partition import Partition
from moldau.wire.schema import Message
from tests.support.played_cluster import PlayedCluster, play, until


class AtTheLastMoment:
    """Calls as others do; right after the first answer has been taken, something else happens."""

    def __init__(self, peers: PeerCalls, happen: Any) -> None:
        self._peers = peers
        self._happen = happen

    async def call(self, broker: BrokerId, request: Message, **named: Any) -> Any:
        answer = await self._peers.call(broker, request, **named)
        happen, self._happen = self._happen, lambda: None
        asyncio.get_running_loop().call_soon(happen)
        return answer

    def forget(self, broker: BrokerId) -> None:
        self._peers.forget(broker)


class BeforeTheAnswer:
    """Calls as others do; before the first answer is handed over, something else happens."""

    def __init__(self, peers: PeerCalls, happen: Callable[[], None]) -> None:
        self._peers = peers
        self._happen = happen

    async def call(self, broker: BrokerId, request: Message, **named: Any) -> Any:
        answer = await self._peers.call(broker, request, **named)
        happen, self._happen = self._happen, lambda: None
        happen()
        return answer

    def forget(self, broker: BrokerId) -> None:
        self._peers.forget(broker)


def test_a_replica_that_goes_while_its_proposal_is_on_its_way_holds_up_no_other(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        cluster.cut(1)
        await cluster.lead(1, 0, isr=(1,), partitions=2, to=[1])
        leader = cluster.brokers[1]
        first, second = (leader.replica(partition=number) for number in (0, 1))
        sender = leader.isr_sender
        sender._peers = BeforeTheAnswer(leader.peers, first.partition.leave)
        sender.join(first, 0)
        sender.join(second, 0)
        await until(lambda: second.partition.isr == {0, 1})
        assert first.partition.isr == {1}

    play(scenario, tmp_path)


def test_an_answer_that_cannot_be_taken_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        cluster.cut(1)
        await cluster.lead(1, 0, isr=(1,), partitions=2, to=[1])
        leader = cluster.brokers[1]
        first, second = (leader.replica(partition=number) for number in (0, 1))
        answered = Partition.answered

        def answered_but_first(partition: Partition, *rest: Any) -> Any:
            if partition is first.partition:
                raise KeyError(0)
            return answered(partition, *rest)

        monkeypatch.setattr(Partition, "answered", answered_but_first)
        leader.isr_sender.join(first, 0)
        leader.isr_sender.join(second, 0)
        await until(lambda: second.partition.isr == {0, 1})

    play(scenario, tmp_path)
    assert "ISR changes could not be sent" in caplog.text


def test_a_proposal_that_comes_just_as_the_sender_rests_is_sent_all_the_same(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: PlayedCluster) -> None:
        cluster.cut(1)  # followers cannot find a leader there, so nobody proposes by itself
        await cluster.lead(1, 0, isr=(1,), partitions=2, to=[1])
        leader = cluster.brokers[1]
        first, second = (leader.replica(partition=number) for number in (0, 1))
        sender = leader.isr_sender
        sender._peers = AtTheLastMoment(leader.peers, lambda: sender.join(second, 0))
        sender.join(first, 0)
        await until(lambda: first.partition.isr == {0, 1})
        await until(lambda: second.partition.isr == {0, 1})

    play(scenario, tmp_path)
