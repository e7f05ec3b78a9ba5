"""This broker as a member of a cluster: its session, its registration, what it knows of the others.

The cluster is known from the controller's UpdateMetadata requests alone, settings from the tree.
When the session with ZooKeeper was lost, the broker registers again, with a new epoch, and waits to
be told its roles anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from moldau.cluster import broker_registration
from moldau.cluster.cluster_controller import CONFIG_FIELDS, ClusterController
from moldau.cluster.controller_election import ControllerElection
from moldau.cluster.tree import controller_node
from moldau.cluster.tree.config_watch import ConfigWatch
from moldau.cluster.tree.feature_watch import FeatureWatch
from moldau.cluster.tree.metadata_retries import patiently
from moldau.config.broker_config import BrokerConfig
from moldau.controller.cluster_commands import SeeConfigs, SeeUncleanDefault
from moldau.controller.controller_facts import ConfigKind
from moldau.controller.rules.replica_placement import Start
from moldau.controller.rules.topic_rules import Draw, NewTopic
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.metadata.store import NodeExists, SessionState, SharedStore, StoreError
from moldau.model.clock import Clock
from moldau.model.cluster import BrokerNode, ClusterImage, Endpoint
from moldau.model.names import BrokerId, Millis, TopicId
from moldau.net.holding.outgoing_hold import OutgoingHold
from moldau.net.peers import OPEN, PeerCalls, Peers, PeerSecurity
from moldau.replication.metadata_cache import ClusterView

log = logging.getLogger("kafka.server.KafkaServer")
zk_log = logging.getLogger("kafka.zk.KafkaZkClient")

RETRY_MS = 200
SESSION_SLACK_MS = 5_000
"""ZooKeeper ends sessions by the tick, a little after their time."""
NO_EPOCH = -1
INTRODUCED_WITHIN_MS = 10_000
"""How long a start waits to hear from the controller; it goes on without as well."""

T = TypeVar("T")
ImageListener = Callable[[ClusterImage, ClusterImage], None]


class DuplicateBroker(Exception):
    """Another broker lives with this id."""


class Member:
    def __init__(
        self,
        store: SharedStore,
        node_id: BrokerId,
        cluster_id: str,
        *,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        timers: Timers,
        follow: ImageListener,
        random_bytes: Callable[[int], bytes],
        draw_id: Callable[[], TopicId],
        peers: PeerCalls | None = None,
        security: PeerSecurity = OPEN,
    ) -> None:
        """`follow` is called with the image before and after every change, and when this broker's
        roles have changed, with the same one twice."""
        loop = asyncio.get_running_loop()
        self.view = ClusterView(node_id, cluster_id)
        self.image = self.view.image
        self.broker_epoch = NO_EPOCH
        """Of the last registration, also while the next one is under way."""
        self._expiries = self._expiries_before = 0
        """Of sessions, in all and before the last registration: when its session has ended its node
        may still be seen for a while."""
        self._has_registered = asyncio.Event()
        self.turn = asyncio.Lock()
        self.serve_here: Callable[[Any], Awaitable[Any]] | None = None
        self._store = store
        self._node_id = node_id
        self._config = config
        self._clock = clock
        self._timers = timers
        self._follow = follow
        self._random_bytes = random_bytes
        self._draw_id = draw_id
        self._own_peers = Peers(loop, self._endpoint_of, client_id=str(node_id), security=security)
        self.peers: PeerCalls = peers or self._own_peers
        self._node: BrokerNode | None = None
        self._attempt: tuple[Millis, int] | None = None
        """Time and last transaction when this session first tried to register: they tell its own
        registration from one that is about to go."""
        self._waiting: dict[asyncio.Future[bool], Callable[[ClusterImage], bool]] = {}
        """Who waits for the image to become so."""
        self._registering: asyncio.Task[None] | None = None
        self._configs = ConfigWatch(store, clock, timers, self._config_changed)
        self._features = FeatureWatch(store, timers, self._features_changed)
        self._is_closed = False
        self.election = self._new_election(store, cluster_id)
        self.controller = self._new_controller(store)

    def _new_election(self, store: SharedStore, cluster_id: str) -> ControllerElection:
        return ControllerElection(
            store,
            self._node_id,
            cluster_id,
            config=self._config,
            clock=self._clock,
            timers=self._timers,
            peers=self.peers,
            here=self._serve,
            draw_id=self._draw_id,
        )

    def _new_controller(self, store: SharedStore) -> ClusterController:
        return ClusterController(
            store,
            self._node_id,
            self.election,
            config=self._config,
            image=lambda: self.image,
            until=self.until,
            draw=self._draw,
            forward=self._forward,
            patiently=self._patiently,
        )

    @property
    def node_id(self) -> BrokerId:
        return self._node_id

    def hold_by(self, hold: OutgoingHold) -> None:
        """While it is on, nothing leaves for other brokers either."""
        self._own_peers.hold = hold

    # Joining

    async def load(self) -> None:
        """Settings, before the first replica is placed."""
        loaded = await self._patiently(self._configs.load)
        self.publish(self.view.with_configs(**loaded))
        await self._patiently(self._features.load)

    async def join(self, node: BrokerNode) -> None:
        """Raises DuplicateBroker."""
        self._node = node
        await self._patiently(self._register)
        self._store.on_session(self._session_changed)
        # The session may have ended before anybody listened.
        self._session_changed(SessionState.CONNECTED)
        self.election.start()
        self._configs.start()
        self._features.start()

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        config = self._config()
        timeout_ms = config.zookeeper_connection_timeout_ms or config.zookeeper_session_timeout_ms
        return await patiently(ask, clock=self._clock, timers=self._timers, timeout_ms=timeout_ms)

    async def _while_session_lives(self, ask: Callable[[], Awaitable[T]]) -> T:
        limit_ms = self._session_ms
        return await patiently(ask, clock=self._clock, timers=self._timers, timeout_ms=limit_ms)

    @property
    def _session_ms(self) -> Millis:
        """After so long without an answer the session is over."""
        return self._config().zookeeper_session_timeout_ms + SESSION_SLACK_MS

    async def introduced(self) -> None:
        def is_known(image: ClusterImage) -> bool:
            return self._node_id in image.brokers

        if not await self._until(is_known, INTRODUCED_WITHIN_MS):
            log.warning("[KafkaServer id=%d] no controller has answered yet", self._node_id)

    async def ready(self) -> None:
        if not self.image.brokers:
            await self._until(lambda image: bool(image.brokers), INTRODUCED_WITHIN_MS)

    async def _register(self) -> None:
        assert self._node is not None
        path = paths.broker_path(self._node_id)
        deadline_ms = self._clock.monotonic_ms() + self._session_ms
        expiries = self._expiries
        if self._attempt is None:
            self._attempt = self._clock.wall_ms(), await self._store.transaction()
        said_at_ms, before = self._attempt
        while True:
            try:
                await broker_registration.register(self._store, self._node, said_at_ms)
                break
            except NodeExists:
                known = await self._store.exists(path)
                if known is None:
                    continue
                data = paths.encode_broker(self._node, said_at_ms)
                if known.created_by > before and known.data == data:
                    break  # an attempt whose outcome was unknown had succeeded
                # Our own registration of a moment ago goes when its session ends; another's stays.
                is_late = self._clock.monotonic_ms() > deadline_ms
                if is_late or not broker_registration.is_of(self._node, known):
                    raise DuplicateBroker(_duplicate(path)) from None
                await self._timers.pause(RETRY_MS)
        self.broker_epoch = (await self._store.get(path)).created_by
        self._expiries_before = expiries
        epoch = await controller_node.latest_epoch(self._store)
        if not self.view.is_stale(epoch):
            # Whoever was the controller before has nothing to say to a broker that begins now.
            self.view.heard(epoch)
        self._has_registered.set()
        zk_log.info(
            "Registered broker %d at path %s with addresses: %s, czxid (broker epoch): %d",
            self._node_id,
            path,
            ",".join(f"{e.listener}://{e.host}:{e.port}" for e in self._node.endpoints),
            self.broker_epoch,
        )

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._attempt = None
            self._expiries += 1
        if state is SessionState.CONNECTED and not self._is_closed and self._registering is None:
            self._registering = asyncio.get_running_loop().create_task(self._register_again())
            self._registering.add_done_callback(self._registering_ended)

    def _registering_ended(self, registering: asyncio.Task[None]) -> None:
        fault = None if registering.cancelled() else registering.exception()
        if fault is not None:
            log.error("This broker could not register and tries again", exc_info=fault)
            self._timers.after(RETRY_MS, lambda: self._session_changed(SessionState.CONNECTED))

    async def _register_again(self) -> None:
        try:
            while not self._is_closed:
                try:
                    if await self._is_registered():
                        return
                    await self._register()
                except DuplicateBroker as fault:
                    log.error("%s", fault)
                    await self._timers.pause(RETRY_MS)
                except StoreError as fault:
                    log.warning("This broker could not register again yet: %s", fault)
                    await self._timers.pause(RETRY_MS)
        finally:
            self._registering = None

    async def _is_registered(self) -> bool:
        node = await self._store.exists(paths.broker_path(self._node_id))
        is_known = node is not None and node.created_by == self.broker_epoch
        return is_known and self._expiries_before == self._expiries

    # What the controller tells

    async def registered(self) -> None:
        await self._has_registered.wait()

    def publish(self, image: ClusterImage) -> None:
        before, self.image = self.image, image
        for broker in before.brokers.keys() - image.brokers.keys():
            self.peers.forget(broker)
        self._follow(before, image)
        for future, is_so in list(self._waiting.items()):
            if is_so(image):
                _settle(future, True)

    async def learn_topics(self, names: Collection[str]) -> None:
        # Nobody tells this broker its roles a second time while its session lives.
        known = await self._while_session_lives(lambda: self._configs.topics(names))
        before = self.view.image.topic_configs
        after = {name: row for name, row in before.items() if name not in known}
        after.update({name: row for name, row in known.items() if row})
        if after != before:
            self.publish(self.view.with_configs(topic_configs=after))

    async def learn_late_topics(self) -> None:
        late = await self._while_session_lives(self._configs.topics_since)
        if late:
            await self.learn_topics(late)

    async def until(self, is_so: Callable[[ClusterImage], bool]) -> bool:
        return await self._until(is_so, self._config().request_timeout_ms)

    async def _until(self, is_so: Callable[[ClusterImage], bool], timeout_ms: Millis) -> bool:
        """Handlers wait here, which are no tasks: so this is a plain future."""
        if is_so(self.image):
            return True
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        timer = self._timers.after(timeout_ms, lambda: _settle(future, False))
        self._waiting[future] = is_so
        try:
            return await future
        finally:
            timer.cancel()
            del self._waiting[future]

    async def _serve(self, request: Any) -> Any:
        """The controller's requests to its own broker, which has said how it serves them."""
        assert self.serve_here is not None
        return await self.serve_here(request)

    def _config_changed(self, kind: ConfigKind, name: str, overrides: dict[str, str]) -> None:
        field = CONFIG_FIELDS[kind]
        configs = dict(getattr(self.view.image, field))
        configs.pop(name, None)
        if overrides or kind is ConfigKind.BROKER:
            configs[name] = overrides
        self.publish(self.view.with_configs(**{field: configs}))
        held = self.election.active
        if held is None:
            return
        self._tell_controller(SeeConfigs(kind, name, overrides))
        allowed = self._config().unclean_leader_election_enable
        if allowed != held.state.unclean_by_default:
            self._tell_controller(SeeUncleanDefault(allowed))

    def _features_changed(self, levels: dict[str, int], epoch: int) -> None:
        self.publish(self.view.with_configs(features=levels, features_epoch=epoch))

    def _tell_controller(self, command: object) -> None:
        held = self.election.active
        if held is not None:
            held.insist(command)

    # What this broker asks of others

    def _endpoint_of(self, broker: BrokerId) -> Endpoint | None:
        node = self.election.node_of(broker) or self.image.brokers.get(broker)
        return None if node is None else node.endpoint(self._config().inter_broker_listener)

    def _draw(self) -> Draw:
        numbers = [int.from_bytes(self._random_bytes(2)) for _ in range(2)]
        return Draw(self._draw_id(), Start(*numbers))

    async def _forward(self, topics: Sequence[NewTopic]) -> None:
        from moldau.cluster.topic_forwarding import forward_topics

        timeout_ms = self._config().request_timeout_ms
        asking = forward_topics(topics, self.image.controller_id, self.peers, timeout_ms)
        await asyncio.get_running_loop().create_task(asking)

    async def log_dir_failed(self) -> None:
        """Tell the controller that replicas of this broker have lost their disk."""
        path, data = paths.LOG_DIR_EVENT_PREFIX, paths.encode_log_dir_event(self._node_id)
        try:
            # If the session ends meanwhile, the controller asks by itself when there is a new one.
            await self._while_session_lives(lambda: self._store.create(path, data, sequential=True))
        except StoreError as fault:
            log.error("The controller could not be told of a failed log directory: %s", fault)

    # Leaving

    async def hand_over(self) -> None:
        """Controlled shutdown: others lead before this broker stops."""
        from moldau.cluster.controlled_shutdown import hand_over

        self.election.stand_down()
        await hand_over(self, self._node_id, self._config(), self._timers)

    async def close(self) -> None:
        self._is_closed = True
        if self._registering is not None:
            self._registering.cancel()
        await self._configs.stop()
        await self._features.stop()
        await self.election.close()
        await self._own_peers.close()


def _settle(future: asyncio.Future[bool], outcome: bool) -> None:
    if not future.done():
        future.set_result(outcome)


def _duplicate(path: str) -> str:
    return (
        f"A broker is already registered on the path {path}. This probably indicates that you "
        "either have configured a brokerid that is already in use, or else you have shutdown this "
        "broker and restarted it faster than the zookeeper timeout so it appears to be "
        "re-registering."
    )
