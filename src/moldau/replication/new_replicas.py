"""Logs for roles that are about to be taken, made in a thread while the loop serves others.

One request's after another's: two of them may ask for the same partition, and only one may make it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from moldau.model.names import BrokerId
from moldau.replication.roles import Role
from moldau.storage.log_store import LogStore
from moldau.storage.new_logs import NewLog
from moldau.storage.settings import LogSettings


class NewReplicas:
    def __init__(self, node_id: BrokerId, store: LogStore) -> None:
        self._node_id = node_id
        self._store = store
        self._turn = asyncio.Lock()

    async def prepare(
        self, roles: Sequence[Role], settings_of: Callable[[str], LogSettings]
    ) -> None:
        """Returns when the logs that could be made are there to be taken."""
        async with self._turn:
            roles = [role for role in roles if self._may_make(role)]
            topics = {role.topic_partition.topic for role in roles}
            settings = {topic: settings_of(topic) for topic in topics}
            if not roles:
                return
            made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            wanted = [
                NewLog(
                    role.topic_partition,
                    role.topic_id,
                    settings[role.topic_partition.topic],
                    role.state.leader_epoch if role.state.leader == self._node_id else None,
                )
                for role in roles
            ]

            def done() -> None:
                if not made.done():
                    made.set_result(None)

            self._store.prepare(wanted, done)
            await made

    def _may_make(self, role: Role) -> bool:
        if (
            self._node_id not in role.state.replicas
            or self._store.get(role.topic_partition) is not None
        ):
            return False
        # With a directory out of service, a log that is not new may lie there.
        return role.is_new or len(self._store.online) == len(self._store.directories)
