"""Access rules for what is mirrored: those that name its topics at the source, under their names at
the target, and those of groups. What goes at the source goes here, while the mirror runs."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.admin.admin_core import AdminCore
from moldau.client.admin.security_admin import Acl, AclFilter
from moldau.client.shared.client_errors import KafkaError
from moldau.mirroring.mirror_file import MirrorFile
from moldau.mirroring.source_cluster import SourceCluster
from moldau.mirroring.topic_mirrors import TopicMirrors
from moldau.security.acl.acl_model import PatternType, ResourceType


class AccessFollowing:
    def __init__(
        self, file: MirrorFile, source: SourceCluster, target: AdminCore, mirrors: TopicMirrors
    ) -> None:
        self._file = file
        self._source = source
        self._target = target
        self._mirrors = mirrors
        self._copied: set[Acl] = set()
        self.trouble = ""

    async def round(self) -> None:
        """Raises KafkaError if one of the clusters does not answer."""
        try:
            found = await self._source.admin.describe_acls(AclFilter())
        except KafkaError as error:
            self.trouble = f"the source's access rules cannot be read: {error.message}"
            return
        topics = {topic.name for topic in self._mirrors}
        wanted = set(at_target(self._file, topics, found))
        missing = wanted - self._copied
        if missing:
            outcomes = await self._target.create_acls(sorted(missing))
            faults = [each for each in outcomes.values() if isinstance(each, KafkaError)]
            self.trouble = f"access rules are not copied: {faults[0].message}" if faults else ""
            self._copied |= {acl for acl in missing if not isinstance(outcomes[acl], KafkaError)}
        gone = self._copied - wanted
        if gone:
            await self._target.delete_acls([_exactly(acl) for acl in sorted(gone)])
            self._copied -= gone


def _exactly(acl: Acl) -> AclFilter:
    return AclFilter(
        acl.principal,
        acl.resource_type,
        acl.resource_name,
        acl.operation,
        acl.permission,
        acl.host,
        acl.pattern_type,
    )


def at_target(file: MirrorFile, topics: Iterable[str], acls: Iterable[Acl]) -> list[Acl]:
    names = set(topics)
    found = []
    for acl in acls:
        is_literal, name = acl.pattern_type is PatternType.LITERAL, acl.resource_name
        if acl.resource_type is ResourceType.TOPIC:
            begins = not is_literal and any(topic.startswith(name) for topic in names)
            if begins or (is_literal and name in names):
                found.append(acl._replace(resource_name=file.target_name(name)))
        elif acl.resource_type is ResourceType.GROUP and (not is_literal or file.wants_group(name)):
            found.append(acl)
    return found
