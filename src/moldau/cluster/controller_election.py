"""Which broker is the controller: all brokers of a cluster contend for it.

Whoever makes the ephemeral node /controller holds it, with an epoch that no one had before. The
holder loads the tree, brings it in order and tells every broker; it resigns when its session is
lost, when the node goes or becomes another's (deleting it forces an election), and when the tree
refuses a write. After that it knows nothing: whatever comes next is read anew. A connection that
breaks is waited for, as long as a session lasts. A controller that cannot do its work resigns too:
one that held on would keep everybody else from doing it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from moldau.cluster.active_controller import ActiveController
from moldau.cluster.controller_deliveries import Deliveries, Here
from moldau.cluster.tree import controller_node, tree_layout
from moldau.cluster.tree.metadata_journal import ControllerEpoch, MetadataJournal, Patience
from moldau.cluster.tree.metadata_retries import patiently
from moldau.cluster.tree.state_change_log import StateChangeLog
from moldau.cluster.tree.tree_events import TreeEvents, lay_out_topic
from moldau.cluster.tree.tree_loading import LoadedCluster, load
from moldau.config.broker_config import BrokerConfig
from moldau.controller import cluster_commands as commands
from moldau.controller.broker_requests.broker_answers import command_of
from moldau.controller.broker_requests.controller_log_lines import lines
from moldau.controller.broker_requests.state_requests import RequestWriter
from moldau.controller.cluster_facts import LiveBroker, Liveness, LivenessChanged
from moldau.controller.cluster_machine import ClusterMachine
from moldau.controller.cluster_state import ClusterState, has_state
from moldau.controller.election_cells import ElectionCells
from moldau.engine.engine import Engine
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.metadata.store import (
    BadVersion,
    NodeExists,
    SessionState,
    SharedStore,
    StoreError,
    Watch,
)
from moldau.model.clock import Clock
from moldau.model.cluster import BrokerNode
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, TopicId
from moldau.net.peers import PeerCalls

log = logging.getLogger("kafka.controller.KafkaController")
state_log = logging.getLogger("state.change.logger")

RETRY_MS = 200
LASTING_MS = 60_000
"""A controller that has worked for so long was able to."""
RETRY_MS_MAX = 10_000
"""Between two attempts of a broker that could not work as the controller."""
WRITE_BYTES_MAX = 512 * 1024
"""ZooKeeper takes 1 MB in one request (jute.maxbuffer)."""
REBALANCE_FIRST_MS = 5_000
NOT_HERE = "This is not the correct controller for this cluster."


class ControllerElection:
    def __init__(
        self,
        store: SharedStore,
        node_id: BrokerId,
        cluster_id: str,
        *,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        timers: Timers,
        peers: PeerCalls,
        here: Here,
        draw_id: Callable[[], TopicId],
    ) -> None:
        self._store = store
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._config = config
        self._clock = clock
        self._timers = timers
        self._peers = peers
        self._here = here
        self._draw_id = draw_id
        self._active: ActiveController | None = None
        self.elections = ElectionCells()
        """Of leaders, in all terms of this broker."""
        self._changed = asyncio.Event()
        self._watch: Watch | None = None
        self._campaign: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._may_stand = True
        self._failures = 0
        """Terms in a row that ended soon because this broker could not do the work."""
        self._ready_at_ms = 0
        self._claim = 0
        """The transaction that made /controller for this broker's last term."""
        self._is_unable = False

    # What others ask

    @property
    def active(self) -> ActiveController | None:
        """None while another broker is the controller, or nobody."""
        held = self._active
        return held if held is not None and held.engine.is_running else None

    def require_active(self) -> ActiveController:
        """Raises the refusal that sends clients to the controller."""
        active = self.active
        if active is None:
            raise ApiError(Error.NOT_CONTROLLER, NOT_HERE)
        return active

    def node_of(self, broker: BrokerId) -> BrokerNode | None:
        """As the controller knows it: earlier than what it has told itself."""
        live = None
        if self._active is not None:
            live = self._active.state.liveness.brokers.get(broker)
        return None if live is None else live.node

    # Contending

    def start(self) -> None:
        log.info("[Controller id=%d] Starting up", self._node_id)
        self._watch = self._store.watch(paths.CONTROLLER, self._look)
        self._store.on_session(self._session_changed)
        self._begin_campaign()

    def _begin_campaign(self) -> None:
        self._campaign = asyncio.get_running_loop().create_task(self._contend())
        self._campaign.add_done_callback(self._campaign_ended)

    def _campaign_ended(self, campaign: asyncio.Task[None]) -> None:
        """Whatever came between: this broker resigns and contends again."""
        fault = None if campaign.cancelled() else campaign.exception()
        if fault is not None:
            log.error(
                "[Controller id=%d] cannot contend and begins anew",
                self._node_id,
                exc_info=fault,
            )
            self._is_unable = True
            self._begin_campaign()

    def _cannot_work(self, held: ActiveController, reason: str) -> None:
        if held is self._active:
            log.error("[Controller id=%d] cannot work: %s", self._node_id, reason)
            held.engine.stop(Error.NOT_CONTROLLER, NOT_HERE)
            self._is_unable = True
            self._changed.set()

    def stand_down(self) -> None:
        """Serve on, but do not become the controller again: this broker is about to stop."""
        self._may_stand = False

    async def close(self) -> None:
        """Resign at once, so that nobody has to wait for the session to end."""
        self._may_stand = False
        if self._watch is not None:
            self._watch.cancel()
        if self._campaign is not None:
            self._campaign.cancel()
            await asyncio.wait((self._campaign,))
        was_held = self._active is not None
        self._resign("The controller is shutting down.")
        if self._ending:
            await asyncio.wait(self._ending)
        if was_held:
            await self._leave()

    def _look(self, path: str) -> None:
        self._changed.set()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._resign("The session with the metadata store has expired.")
        self._changed.set()

    async def _contend(self) -> None:
        while True:
            self._changed.clear()
            try:
                if self._is_unable:
                    await self._step_aside()
                await self._read_controller_node()
            except StoreError as fault:
                # The controller stays: without the store it can change nothing anyway.
                log.warning("[Controller id=%d] cannot contend yet: %s", self._node_id, fault)
                self._changed.set()
                await self._timers.pause(RETRY_MS)
            await self._changed.wait()

    async def _step_aside(self) -> None:
        """Let others try first, and do not come back again and again without a pause."""
        self._resign("This broker cannot do the work of the controller.")
        await controller_node.resign(self._store, self._node_id, self._claim)
        self._is_unable = False
        if self._clock.monotonic_ms() - self._ready_at_ms > LASTING_MS:
            self._failures = 0
        pause_ms = min(RETRY_MS_MAX, RETRY_MS << min(self._failures, 10))
        self._failures += 1
        await self._timers.pause(pause_ms)

    async def _read_controller_node(self) -> None:
        held = self._active
        if held is not None and not held.engine.is_running:
            # A write was refused: what the tree holds now is the truth.
            self._resign("A change of the metadata was refused.")
            await self._leave()
            held = None
        node = await self._store.exists(paths.CONTROLLER)
        if node is None:
            self._resign("The node /controller is gone.")
            if self._may_stand:
                await self._stand()
            return
        holder = controller_node.controller_of(node)
        if held is not None and node.created_by != held.claim:
            self._resign(f"Broker {holder} has become the controller.")
        if self._active is None and holder == self._node_id:
            # Left from a term that failed before it began, or from this broker's last run.
            await self._leave()
            self._changed.set()
        elif self._active is None:
            log.debug(
                "[Controller id=%d] Broker %d has been elected as the controller, so stopping the "
                "election process.",
                self._node_id,
                holder,
            )

    async def _leave(self) -> None:
        try:
            await controller_node.resign(self._store, self._node_id, self._claim)
        except StoreError as fault:
            log.info("[Controller id=%d] /controller is left as it is: %s", self._node_id, fault)

    # As the controller

    async def _stand(self) -> None:
        self._changed.set()  # whatever comes of it has to be looked at
        try:
            now_ms = self._clock.wall_ms()
            term = await controller_node.register_controller(self._store, self._node_id, now_ms)
        except (NodeExists, BadVersion):
            return
        node = await self._store.exists(paths.CONTROLLER)
        if node is None or controller_node.controller_of(node) != self._node_id:
            return
        log.info(
            "[Controller id=%d] %d successfully elected as the controller. Epoch incremented to %d "
            "and epoch zk version is now %d",
            self._node_id,
            self._node_id,
            term.epoch,
            term.epoch_version,
        )
        self._claim = node.created_by
        await self._take_over(term, node.created_by)

    async def _take_over(self, term: ControllerEpoch, claim: int) -> None:
        log.info("[Controller id=%d] Initializing controller context", self._node_id)
        loaded, deletions = await patiently(
            self._read_tree,
            clock=self._clock,
            timers=self._timers,
            timeout_ms=self._config().zookeeper_session_timeout_ms,
        )
        self._active = held = self._begin(term, claim, loaded)
        held.events = TreeEvents(
            self._store,
            held,
            timers=self._timers,
            draw_id=self._draw_id,
            deletion_is_enabled=lambda: self._config().delete_topic_enable,
            failed=lambda fault: self._cannot_work(held, f"the tree cannot be read: {fault!r}"),
        )
        # Everything is looked at once more after that: nothing falls between load and watch.
        held.events.watch()
        try:
            await held.submit(commands.TakeOver(deletions, self._config().delete_topic_enable))
        except ApiError as refusal:
            if not held.is_over:  # else another has become the controller meanwhile
                self._cannot_work(held, f"the take-over was refused: {refusal.message}")
            return
        if held.events is not None:
            self._ready_at_ms = self._clock.monotonic_ms()
            held.events.start()
            held.rebalance_later(REBALANCE_FIRST_MS)
            log.info("[Controller id=%d] Ready to serve as the new controller", self._node_id)

    async def _read_tree(self) -> tuple[LoadedCluster, tuple[str, ...]]:
        """In order, with the topics that are to be deleted. May be done again."""
        await tree_layout.lay_out(self._store)
        loaded = await load(self._store, self._cluster_id, self._node_id, hands_out_ids=False)
        await self._mend(loaded)
        return loaded, tuple(await self._store.children(paths.DELETE_TOPICS))

    def _begin(self, term: ControllerEpoch, claim: int, loaded: LoadedCluster) -> ActiveController:
        epochs = loaded.broker_epochs
        brokers = {b: LiveBroker(node, epochs[b]) for b, node in loaded.image.brokers.items()}
        config = self._config()
        state = ClusterState(
            loaded.image,
            Liveness(brokers),
            loaded.producer_id_next,
            unclean_by_default=config.unclean_leader_election_enable,
            unreadable=loaded.unreadable,
        )
        state.elections = self.elections
        writer = RequestWriter(self._node_id, term.epoch, config.inter_broker_listener)
        machine = ClusterMachine(state, writer)
        deliveries = Deliveries(
            self._node_id,
            self._peers,
            self._here,
            epoch_of=lambda broker: state.liveness.epoch_of(broker),
            answered=self._answered,
            tell_again=self._tell_again,
            timeout_ms=lambda: self._config().controller_socket_timeout_ms,
            timers=self._timers,
        )
        told = StateChangeLog(self._node_id, term.epoch, state.cluster.topics)
        journal = self._journal(term, told)
        engine = Engine(
            "controller",
            machine,
            journal,
            clock=self._clock,
            timers=self._timers,
            on_committed=lambda facts: self._say(facts, told),
            on_stopped=lambda refusal: self._changed.set(),
            send=deliveries.send,
        )
        return ActiveController(
            term,
            engine,
            journal,
            machine,
            deliveries,
            claim,
            config=self._config,
            timers=self._timers,
            cannot_work=self._cannot_work,
        )

    def _journal(self, term: ControllerEpoch, told: StateChangeLog) -> MetadataJournal:
        return MetadataJournal(
            self._store,
            term,
            write_bytes_max=WRITE_BYTES_MAX,
            state_changes=told,
            patience=Patience(self._timers, self._config().zookeeper_session_timeout_ms),
        )

    async def _mend(self, loaded: LoadedCluster) -> None:
        """Nodes that a tool left out, or a controller that fell over half-way."""
        configured = set(await self._store.children(paths.TOPIC_CONFIGS))
        for name, topic in loaded.image.topics.items():
            if name not in configured or not all(map(has_state, topic.partitions)):
                await lay_out_topic(self._store, name, len(topic.partitions))

    def _resign(self, reason: str) -> None:
        """At once, whatever is under way; what takes time ends by itself."""
        held, self._active = self._active, None
        if held is None:
            return
        log.info("[Controller id=%d] Resigning: %s", self._node_id, reason)
        held.engine.stop(Error.NOT_CONTROLLER, NOT_HERE)
        held.end()
        events, held.events = held.events, None
        ending = asyncio.get_running_loop().create_task(_end(held.deliveries, events))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        log.debug("[Controller id=%d] Resigned", self._node_id)

    def _answered(self, broker: BrokerId, request: Any, response: Any) -> None:
        held = self.active
        if held is None:
            return
        if response.error_code:
            # It knows of a newer controller, or has a new epoch: in both cases the tree tells.
            name, error = type(request).__name__, Error(response.error_code).name
            state_log.error(
                "[Controller id=%d epoch=%d] Broker %d refused %s: %s",
                *(self._node_id, held.term.epoch, broker, name, error),
            )
            return
        command = command_of(broker, request, response, held.state.liveness.offline)
        if command is not None:
            held.insist(command)

    def _tell_again(self, broker: BrokerId) -> None:
        if self.active is not None:
            self.active.insist(commands.TellAgain(broker))

    def _say(self, facts: Sequence[object], told: StateChangeLog) -> None:
        for fact in facts:
            if isinstance(fact, LivenessChanged):
                told.brokers_changed(fact)
        for line in lines(facts, self._node_id):
            log.info("[Controller id=%d] %s", self._node_id, line)


async def _end(deliveries: Deliveries, events: TreeEvents | None) -> None:
    await deliveries.stop()
    if events is not None:
        await events.stop()
