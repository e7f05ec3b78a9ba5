"""The controller while it is this broker: the machine at work, the tree watched, the brokers told.

Made by the election, and of no use when its epoch is over: the engine is stopped then, and whatever
is still asked of it is refused.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from moldau.cluster.controller_deliveries import Deliveries
from moldau.cluster.tree.metadata_journal import ControllerEpoch, MetadataJournal
from moldau.config.broker_config import BrokerConfig
from moldau.controller import cluster_commands as commands
from moldau.controller.cluster_machine import ClusterMachine
from moldau.controller.cluster_state import ClusterState
from moldau.controller.rules.preferred_leaders import imbalanced
from moldau.engine.engine import Engine
from moldau.engine.machine import Command
from moldau.engine.timers import TimerHandle, Timers
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis

if TYPE_CHECKING:
    from moldau.cluster.tree.tree_events import TreeEvents

log = logging.getLogger("kafka.controller.KafkaController")

R = TypeVar("R")

RETRY_MS = 200
INSISTENCE_MAX = 100
"""Attempts to make the machine take a command, before the controller counts as unable to work."""


class ActiveController:
    def __init__(
        self,
        term: ControllerEpoch,
        engine: Engine,
        journal: MetadataJournal,
        machine: ClusterMachine,
        deliveries: Deliveries,
        claim: int,
        *,
        config: Callable[[], BrokerConfig],
        timers: Timers,
        cannot_work: Callable[[ActiveController, str], None],
    ) -> None:
        """`cannot_work` ends a term in which something was refused that nobody would ask for
        again."""
        self.term = term
        self.engine = engine
        self._journal = journal
        self.machine = machine
        self.deliveries = deliveries
        self.claim = claim
        """The transaction that made /controller for this term."""
        self.events: TreeEvents | None = None
        self._config = config
        self._timers = timers
        self._cannot_work = cannot_work
        self._rebalancing: TimerHandle | None = None

    @property
    def state(self) -> ClusterState:
        return self.machine.state

    @property
    def is_over(self) -> bool:
        return not self.engine.is_running

    def end(self) -> None:
        self._journal.close()
        if self._rebalancing is not None:
            self._rebalancing.cancel()

    @overload
    def submit(self, command: Command[R]) -> asyncio.Future[R]: ...

    @overload
    def submit(self, command: object) -> asyncio.Future[Any]: ...

    def submit(self, command: object) -> asyncio.Future[Any]:
        cells, began_ns = self.state.elections, time.perf_counter_ns()
        before = cells.elected
        future = self.engine.submit(command)
        if cells.elected != before:
            future.add_done_callback(lambda _: cells.times.add(time.perf_counter_ns() - began_ns))
        return future

    def insist(self, command: object) -> None:
        """Nobody waits for the outcome, and nobody would ask again: the command is given until it
        is taken, or the term is over."""
        self._insist(command, 1)

    def _insist(self, command: object, attempt: int) -> None:
        def done(outcome: asyncio.Future[object]) -> None:
            fault = None if outcome.cancelled() else outcome.exception()
            if self.is_over or not isinstance(fault, ApiError):
                return
            if fault.error is not Error.REQUEST_TIMED_OUT or attempt == INSISTENCE_MAX:
                reason = fault.message or fault.error.name
                self._cannot_work(self, f"{type(command).__name__} was refused: {reason}")
                return
            self._timers.after(RETRY_MS, lambda: self._insist(command, attempt + 1))

        if not self.is_over:
            self.submit(command).add_done_callback(done)

    def rebalance_later(self, delay_ms: Millis) -> None:
        self._rebalancing = self._timers.after(delay_ms, self._rebalance)

    def _rebalance(self) -> None:
        if self.is_over:
            return
        config = self._config()
        self.rebalance_later(config.leader_imbalance_check_interval_seconds * 1000)
        if not config.auto_leader_rebalance_enable:
            return
        threshold = config.leader_imbalance_per_broker_percentage
        rows = imbalanced(self.state, threshold)
        who = self.term.broker
        log.debug(
            "[Controller id=%d] Preferred replicas by broker Map(%s)",
            who,
            ", ".join(
                f"{broker} -> Map({', '.join(map(str, places))})"
                for broker, places in rows.preferred.items()
            ),
        )
        for broker, ratio in rows.ratios.items():
            log.info(
                "[Controller id=%d] Leader imbalance ratio for broker %d is %s", who, broker, ratio
            )
        if rows.places:
            self.insist(commands.RebalanceLeaders(threshold))
