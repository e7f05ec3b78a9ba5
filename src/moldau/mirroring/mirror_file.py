"""The file of a mirror: from where, to where, which topics and groups, and what goes with them.

Pure. Properties, as in Kafka's own files. What begins with `source.` or `target.` are settings of
the clients that reach the two clusters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from moldau.mirroring.mirror_faults import MirrorFault

COPIES = ("settings", "groups", "acls")
REFRESH_MS = 5_000
REFRESH_MS_MIN = 100
KEYS = {
    "topics": "Topics by name, separated by commas.",
    "topics.regex": "Topics of which the whole name matches.",
    "topics.exclude": "Not these of them: a regular expression for whole names.",
    "prefix": "What names of topics begin with at the target; nothing by default.",
    "groups": "Groups of which the whole name matches; .* by default.",
    "copy": "What goes with the records, of settings, groups and acls; settings,groups by default.",
    "refresh.ms": "How often topics, settings, groups and access rules are looked at; 5000.",
}


class MirrorFile(NamedTuple):
    source: Mapping[str, str]
    target: Mapping[str, str]
    topics: frozenset[str]
    topics_regex: str = ""
    topics_exclude: str = ""
    prefix: str = ""
    groups: str = ".*"
    copies: frozenset[str] = frozenset({"settings", "groups"})
    refresh_ms: int = REFRESH_MS
    strip: str = ""
    """What names of topics begin with at the source, in the other direction."""

    @classmethod
    def parse(cls, rows: Mapping[str, str]) -> MirrorFile:
        """Raises MirrorFault."""
        clients: dict[str, dict[str, str]] = {"source": {}, "target": {}}
        own = {}
        for key, value in rows.items():
            side, _, rest = key.partition(".")
            if side in clients and rest:
                clients[side][rest] = value
            elif key in KEYS:
                own[key] = value.strip()
            else:
                raise MirrorFault(f"a mirror has no setting {key}: there are {_known()}")
        for side, settings in clients.items():
            if not settings.get("bootstrap.servers"):
                raise MirrorFault(f"{side}.bootstrap.servers is missing")
        file = cls(
            clients["source"],
            clients["target"],
            frozenset(_listed(own.get("topics", ""))),
            _regex("topics.regex", own),
            _regex("topics.exclude", own),
            own.get("prefix", ""),
            _regex("groups", own) or ".*",
            frozenset(_copies(own)),
            _refresh_ms(own),
        )
        if not file.topics and not file.topics_regex:
            raise MirrorFault("name topics, or topics.regex")
        return file

    def wants(self, topic: str) -> bool:
        if not topic.startswith(self.strip):
            return False
        topic = topic.removeprefix(self.strip)
        if self.topics_exclude and re.fullmatch(self.topics_exclude, topic):
            return False
        if topic in self.topics:
            return True
        return bool(self.topics_regex and re.fullmatch(self.topics_regex, topic))

    def wants_group(self, group: str) -> bool:
        return re.fullmatch(self.groups, group) is not None

    def target_name(self, topic: str) -> str:
        return self.prefix + topic.removeprefix(self.strip)

    def reversed(self) -> MirrorFile:
        """The same topics in the other direction, back to the names that they had."""
        return self._replace(
            source=self.target, target=self.source, prefix=self.strip, strip=self.prefix
        )


def _known() -> str:
    return ", ".join((*KEYS, "source.* and target.*"))


def _listed(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _regex(key: str, own: Mapping[str, str]) -> str:
    text = own.get(key, "")
    try:
        re.compile(text)
    except re.error as fault:
        raise MirrorFault(f"{key} is no regular expression: {fault}") from None
    return text


def _copies(own: Mapping[str, str]) -> list[str]:
    copies = _listed(own.get("copy", "settings,groups"))
    for each in copies:
        if each not in COPIES:
            raise MirrorFault(f"copy is of {', '.join(COPIES)}, not {each}")
    return copies


def _refresh_ms(own: Mapping[str, str]) -> int:
    text = own.get("refresh.ms", str(REFRESH_MS))
    if not text.isdecimal() or int(text) < REFRESH_MS_MIN:
        raise MirrorFault(f"refresh.ms is at least {REFRESH_MS_MIN}, not {text}")
    return int(text)
