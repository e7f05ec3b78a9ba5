"""What the source asks a cluster for: partitions, offsets, raw records; and the commit of progress.

Blocks its caller; the requests run on the process's client loop. The first answer has to come
quickly, for a wrong address is the likeliest fault; after that a broker may be away for as long
as any client would wait.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from moldau.client.admin.admin_core import AdminCore
from moldau.client.admin.admin_results import OffsetSpec, Results, checked
from moldau.client.shared.background_loop import is_inherited, run, submit
from moldau.client.shared.client_errors import KafkaError, KafkaTimeoutError
from moldau.config.client_settings.admin_settings import AdminConfig
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.pipelines.source.source_offsets import Offsets
from moldau.pipelines.source.source_options import SourceError, SourceOptions

T = TypeVar("T")

FIRST_ANSWER_MS_MAX = 5_000
UNKNOWN_TOPIC_TRIES = 4
"""A topic just created may be unknown to a broker for a moment, one misspelt forever."""

log = logging.getLogger("moldau.pipelines.source")


class SourceClient:
    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.consumer = options.consumer
        self._is_committed = self.consumer.isolation_level == "read_committed"
        settings = {
            key: value for key, value in options.settings.items() if key in AdminConfig.rows
        }
        settings.setdefault("client.id", "moldau-source")
        self.admin = AdminCore(settings)
        self._has_answer = False

    def close(self) -> None:
        if not is_inherited(self.admin):
            run(self.admin.close(), self.admin)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start something on the client loop and go on."""
        return submit(coroutine, self.admin)

    def partitions(self, *, must_exist: bool) -> set[TopicPartition]:
        """The partitions subscribed to, as they are now."""
        return run(self._first(self._partitions(must_exist)), self.admin)

    def topic_id(self, topic: str) -> bytes:
        """As of the last look at its partitions; all zeros where brokers have none."""
        return self.admin.cluster.topic_id(topic)

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return self._listed(dict.fromkeys(partitions, int(OffsetSpec.EARLIEST)))

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The ends; with read_committed before the first transaction that is still open."""
        return self._listed(dict.fromkeys(partitions, int(OffsetSpec.LATEST)))

    def at_timestamps(self, timestamps: Mapping[TopicPartition, int]) -> Offsets:
        """The first record that is not older, -1 where there is none."""
        return self._listed(timestamps)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell a group how far the stream is; a failure must not stop the stream."""
        try:
            answers = run(self.admin.alter_group_offsets(group, offsets), self.admin)
        except KafkaError as fault:
            log.warning("The progress was not committed to the group %s: %s", group, fault)
            return
        for tp, error in Results(answers).errors.items():
            log.warning("The progress in %s was not committed to %s: %s", tp, group, error)

    def _listed(self, specs: Mapping[TopicPartition, int]) -> Offsets:
        if not specs:
            return {}
        try:
            listed = run(
                self._first(self.admin.list_offsets(specs, read_committed=self._is_committed)),
                self.admin,
            )
            return {tp: found.offset for tp, found in checked(listed).items()}
        except KafkaError as fault:
            names = ", ".join(sorted({tp.topic for tp in specs}))
            raise SourceError(f"The offsets of {names} could not be had: {fault}") from None

    async def _first(self, question: Coroutine[Any, Any, T]) -> T:
        """The answer, after any broker has answered at all."""
        if not self._has_answer:
            bootstrap = self.options.bootstrap
            try:
                await self.admin.cluster.refresh_brokers(timeout_ms=FIRST_ANSWER_MS_MAX)
            except KafkaTimeoutError as fault:
                question.close()
                raise SourceError(
                    f"No broker of {bootstrap} could be reached, check"
                    f" kafka.bootstrap.servers: {fault}"
                ) from None
            except KafkaError as fault:
                question.close()
                raise SourceError(f"{bootstrap} does not answer well: {fault}") from None
            self._has_answer = True
        return await question

    async def _partitions(self, must_exist: bool) -> set[TopicPartition]:
        choice = self.options.subscription
        if choice.pattern:
            topics = await self._matching(choice.pattern)
        else:
            topics = list(choice.topics) or sorted({tp.topic for tp in choice.assigned})
        known = await self._known(topics)
        if choice.assigned:
            lacking = sorted(choice.assigned - known)
        else:
            named = {tp.topic for tp in known}
            lacking = [TopicPartition(name, -1) for name in topics if name not in named]
        if lacking and must_exist and not choice.pattern:
            raise self._missing(lacking[0])
        return known & choice.assigned if choice.assigned else known

    async def _matching(self, pattern: str) -> list[str]:
        listed = await self.admin.list_topics(
            include_internal=not self.consumer.exclude_internal_topics
        )
        return [name for name in listed if re.fullmatch(pattern, name)]

    async def _known(self, topics: Collection[str]) -> set[TopicPartition]:
        cluster = self.admin.cluster
        found: set[TopicPartition] = set()
        left = set(topics)
        for tries in range(UNKNOWN_TOPIC_TRIES):
            if not left:
                break
            if tries:
                await self.admin.network.pause(tries)
            await cluster.refresh(left, allow_auto_create=False)
            for name in sorted(left):
                topic = cluster.topic(name)
                if topic is not None and topic.partitions:
                    found |= {TopicPartition(name, index) for index in topic.partitions}
                    left.discard(name)
                elif "AUTHORIZATION" in (error := cluster.topic_error(name)).name:
                    raise SourceError(f"The topic {name} may not be read: {error.sentence}")
                elif error is Error.INVALID_TOPIC_EXCEPTION:
                    raise SourceError(f"{name!r} is no name of a topic: {error.sentence}")
        return found

    def _missing(self, tp: TopicPartition) -> SourceError:
        bootstrap = self.options.bootstrap
        if tp.partition >= 0:
            return SourceError(f"There is no partition {tp} at {bootstrap}: correct assign")
        return SourceError(
            f"There is no topic {tp.topic} at {bootstrap}: create it, or correct subscribe"
        )
