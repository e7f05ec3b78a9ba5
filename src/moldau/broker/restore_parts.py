"""What topics are restored and mirrored with on a broker that stands alone. Loaded when somebody
asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from moldau.cluster.lone_controller import LoneController
from moldau.config.broker_config import BrokerConfig
from moldau.config.topic_config import TopicConfig
from moldau.handlers.services import Services
from moldau.storage.directories.log_store import LogStore

if TYPE_CHECKING:
    from moldau.cluster.mirrors import Mirrors
    from moldau.storage.restores.restoring import ReadyTopic, Restores


class RestoreParts:
    def __init__(
        self,
        logs: LogStore,
        controller: LoneController,
        services: Services,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._logs = logs
        self._controller = controller
        self._services = services
        self._config = config
        self._restores: Restores | None = None

    def __call__(self) -> Restores:
        if self._restores is None:
            from moldau.storage.restores.restoring import Restores

            self._restores = Restores(
                self._logs,
                create=self._create,
                settings_of=lambda overrides: TopicConfig.of(self._config(), overrides),
                pass_producer_ids=self._pass_producer_ids,
                draw_topic_id=self._controller.draw_topic_id,
            )
        return self._restores

    async def _create(self, topics: Sequence[ReadyTopic], validate_only: bool) -> None:
        from moldau.controller.rules.topic_rules import NewTopic

        wanted = {
            topic.topic_id: NewTopic(
                topic.name,
                len(topic.leader_epochs),
                1,
                configs=topic.configs,
                leader_epochs=topic.leader_epochs,
            )
            for topic in topics
        }
        await self._controller.create_restored(wanted, validate_only=validate_only)

    async def _pass_producer_ids(self, last: int) -> None:
        if last >= 0:
            await self._controller.pass_producer_ids(last)
            self._services.producer_ids.pass_by(last)


class MirrorParts:
    def __init__(self, controller: LoneController, services: Services) -> None:
        self._controller = controller
        self._services = services
        self._mirrors: Mirrors | None = None

    def __call__(self) -> Mirrors:
        if self._mirrors is None:
            from moldau.cluster.mirrors import Mirrors

            services = self._services
            self._mirrors = Mirrors(
                services.replicas,
                self._controller,
                image=services.image,
                clock=services.clock,
                producer_id_next=services.producer_ids.next,
                pass_by=services.producer_ids.pass_by,
            )
        return self._mirrors


def add_lone_parts(
    services: Services,
    logs: LogStore,
    controller: LoneController,
    config: Callable[[], BrokerConfig],
) -> None:
    """What only a broker that stands alone can be asked for."""
    services.restores = RestoreParts(logs, controller, services, config)
    services.mirrors = MirrorParts(controller, services)
