"""All entries, and the decision by them. Immutable in use: a change makes a new one.

The rule is Kafka's: any matching DENY refuses, then any matching ALLOW permits, and a resource that
no entry of anybody mentions is open only if `allow.everyone.if.no.acl.found` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from moldau.security.acl.acl_model import (
    ANY_USER,
    IMPLIED,
    WILDCARD,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

NOBODY: frozenset[str] = frozenset()


class Verdict(NamedTuple):
    is_allowed: bool
    rule: str
    """SuperUser, DefaultAllow, DefaultDeny, or the entry that decided."""


SUPER_USER = Verdict(True, "SuperUser")
DEFAULT_ALLOW = Verdict(True, "DefaultAllow")
DEFAULT_DENY = Verdict(False, "DefaultDeny")


class Acls:
    __slots__ = ("_literal", "_prefixed", "_resources")

    def __init__(self, resources: Mapping[ResourcePattern, frozenset[Entry]] | None = None) -> None:
        self._resources = {key: entries for key, entries in (resources or {}).items() if entries}
        self._literal: dict[ResourceType, dict[str, frozenset[Entry]]] = {}
        self._prefixed: dict[ResourceType, dict[str, frozenset[Entry]]] = {}
        for resource, entries in self._resources.items():
            is_literal = resource.pattern is PatternType.LITERAL
            table = self._literal if is_literal else self._prefixed
            table.setdefault(resource.type, {})[resource.name] = entries

    @property
    def resources(self) -> Mapping[ResourcePattern, frozenset[Entry]]:
        return self._resources

    def __len__(self) -> int:
        return sum(map(len, self._resources.values()))

    def __iter__(self) -> Iterator[Acl]:
        for resource, entries in self._resources.items():
            for entry in entries:
                yield Acl(resource, entry)

    def entries(self, resource: ResourcePattern) -> frozenset[Entry]:
        return self._resources.get(resource, frozenset())

    def with_entries(self, resource: ResourcePattern, entries: Iterable[Entry]) -> Acls:
        """With these entries instead of those that the resource had."""
        return Acls({**self._resources, resource: frozenset(entries)})

    def about(self, kind: ResourceType, name: str) -> Iterator[tuple[ResourcePattern, Entry]]:
        """Every entry that applies to the name."""
        literal = self._literal.get(kind)
        if literal is not None:
            for written in (name, WILDCARD) if name != WILDCARD else (name,):
                for entry in literal.get(written, ()):
                    yield ResourcePattern(kind, written), entry
        prefixed = self._prefixed.get(kind)
        if prefixed:
            for prefix in self._prefixes(prefixed, name):
                for entry in prefixed[prefix]:
                    yield ResourcePattern(kind, prefix, PatternType.PREFIXED), entry

    @staticmethod
    def _prefixes(table: Mapping[str, frozenset[Entry]], name: str) -> Iterator[str]:
        if len(table) <= len(name):
            yield from (prefix for prefix in table if name.startswith(prefix))
        else:
            yield from (name[:n] for n in range(1, len(name) + 1) if name[:n] in table)

    def verdict(
        self,
        principal: str,
        host: str,
        operation: Operation,
        kind: ResourceType,
        name: str,
        *,
        is_open: bool = False,
    ) -> Verdict:
        """`is_open`: whether a resource without any entry is for everybody."""
        granted: list[tuple[ResourcePattern, Entry]] = []
        denied: list[tuple[ResourcePattern, Entry]] = []
        is_mentioned = False
        implying = IMPLIED.get(operation, frozenset())
        for resource, entry in self.about(kind, name):
            is_mentioned = True
            if entry.principal not in (principal, ANY_USER) or entry.host not in (host, WILDCARD):
                continue
            is_same = entry.operation in (operation, Operation.ALL)
            if entry.permission is Permission.DENY:
                if is_same:
                    denied.append((resource, entry))
            elif is_same or entry.operation in implying:
                granted.append((resource, entry))
        # Of several the one that Apache Kafka names in its audit log.
        if denied:
            return Verdict(False, _rule(*min(denied, key=_place)))
        if granted:
            return Verdict(True, _rule(*max(granted, key=_place)))
        return DEFAULT_DENY if is_mentioned or not is_open else DEFAULT_ALLOW

    def allows_on_any(
        self,
        principal: str,
        host: str,
        operation: Operation,
        kind: ResourceType,
        *,
        is_open: bool = False,
    ) -> bool:
        """Whether some resource of a kind exists, or could, on which this is allowed."""
        allowed, denied = self._grants(principal, host, operation, kind)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        if is_open or (PatternType.LITERAL, WILDCARD) in allowed:
            return True
        return any(
            (pattern, name) not in denied
            and not any((PatternType.PREFIXED, name[:n]) in denied for n in range(1, len(name) + 1))
            for pattern, name in allowed
        )

    def _grants(
        self, principal: str, host: str, operation: Operation, kind: ResourceType
    ) -> tuple[set[tuple[PatternType, str]], set[tuple[PatternType, str]]]:
        allowed: set[tuple[PatternType, str]] = set()
        denied: set[tuple[PatternType, str]] = set()
        implying = IMPLIED.get(operation, frozenset())
        tables = ((PatternType.LITERAL, self._literal), (PatternType.PREFIXED, self._prefixed))
        for pattern, table in tables:
            for name, entries in table.get(kind, {}).items():
                for entry in entries:
                    is_ours = entry.principal in (principal, ANY_USER)
                    if not is_ours or entry.host not in (host, WILDCARD):
                        continue
                    is_same = entry.operation in (operation, Operation.ALL)
                    if entry.permission is Permission.DENY:
                        if is_same:
                            denied.add((pattern, name))
                    elif is_same or entry.operation in implying:
                        allowed.add((pattern, name))
        return allowed, denied


def _place(found: tuple[ResourcePattern, Entry]) -> tuple[bool, int, int, int, str, str]:
    """Where an entry stands among those about one name, in Apache Kafka's order."""
    resource, entry = found
    is_about_all = resource.name == WILDCARD and resource.pattern is PatternType.LITERAL
    order = entry.operation, entry.principal, entry.host
    return (is_about_all, -len(resource.name), resource.pattern, *order)


def _rule(resource: ResourcePattern, entry: Entry) -> str:
    return (
        f"MatchingAcl(acl=StandardAcl[resourceType={resource.type.name}, "
        f"resourceName={resource.name}, patternType={resource.pattern.name}, "
        f"principal={entry.principal}, host={entry.host}, operation={entry.operation.name}, "
        f"permissionType={entry.permission.name}])"
    )
