"""A coordinator of a broker: a machine on each partition of its internal topic that is led here.

Groups, transactions, and whatever is to come differ in their topic, their machine and their jobs;
how they are told of the cluster and how they stop is the same. `broker/coordinator_parts.py` holds
the list of them, FindCoordinator looks in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from moldau.config.broker_config import BrokerConfig
from moldau.coordinators.log_journal import LogJournal
from moldau.engine.machine import Send
from moldau.engine.shards import Codec, ShardMachine, Shards
from moldau.engine.timers import Timers
from moldau.model.clock import Clock
from moldau.model.names import BrokerId, Millis
from moldau.replication.replicas import Replicas

R = TypeVar("R")

PlanJob = Callable[[str, Millis, Callable[[], Awaitable[object] | None]], None]
"""By name and interval: has the job run again and again."""


class Coordinator(Shards):
    key_type: int
    """As FindCoordinator names it."""

    def __init__(
        self,
        topic: str,
        node_id: BrokerId,
        *,
        config: Callable[[], BrokerConfig],
        replicas: Replicas,
        clock: Clock,
        timers: Timers,
        send: Callable[[Send], None] | None = None,
    ) -> None:
        self._config = config
        super().__init__(
            topic,
            node_id,
            open_log=lambda partition, codec: LogJournal(
                replicas.find(topic, partition), codec.encode, clock
            ),
            new_machine=self._machine,
            new_codec=self._new_record_codec,
            loaded=self._loaded_command,
            clock=clock,
            timers=timers,
            observe=self._write_log_lines,
            send=send,
            led=lambda: replicas.led(topic),
            bytes_max=self._state_bytes_max,
        )

    # What each says for itself; all of it is imported with the first partition that is led here

    def plan_jobs(self, plan: PlanJob) -> None:
        """What has to be done again and again."""
        raise NotImplementedError

    def _machine(self, partition: int, leader_epoch: int) -> ShardMachine:
        raise NotImplementedError

    def _new_record_codec(self) -> Codec:
        raise NotImplementedError

    def _loaded_command(self) -> object:
        """What a machine is given first after its replay."""
        raise NotImplementedError

    def _write_log_lines(self, partition: int, facts: Sequence[object]) -> None:
        """Of what was committed."""
        raise NotImplementedError

    def _state_bytes_max(self) -> int:
        """What the states of all its partitions may take."""
        raise NotImplementedError

    def _stored_within_ms(self) -> Millis:
        """How long a request waits for the log."""
        raise NotImplementedError

    # What all share

    def deadline(self) -> Millis:
        """For everything that is asked now."""
        return self._clock.monotonic_ms() + self._stored_within_ms()

    async def stored(self, future: asyncio.Future[R], deadline_ms: Millis | None = None) -> R:
        """The outcome of a command that waits for nothing but the log, and not for ever. A request
        that awaits several gives all the same deadline."""
        if future.done():
            return future.result()
        left_ms = self._stored_within_ms()
        if deadline_ms is not None:
            left_ms = deadline_ms - self._clock.monotonic_ms()
        text = f"the replicas of {self.topic} have not stored it in time"
        return await self._timers.within(left_ms, future, text)

    async def close(self) -> None:
        """After `stop`: nothing that it began is under way any more when this returns."""
