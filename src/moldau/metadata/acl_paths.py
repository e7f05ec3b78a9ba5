"""Where access control lists stand in the znode tree and how they are written, as in Kafka 3.9.

Pure. Literal names and prefixes stand apart, and so do the notes about their changes, because older
releases know only the first kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from moldau.metadata import node_fields as checked
from moldau.security.acl.acl_model import (
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    pascal_case,
)

LITERAL_LISTS = "/kafka-acl"
EXTENDED_LISTS = "/kafka-acl-extended"
PREFIXED_LISTS = "/kafka-acl-extended/prefixed"
LITERAL_CHANGES = "/kafka-acl-changes"
PREFIXED_CHANGES = "/kafka-acl-extended-changes"
CHANGE_PREFIX = "acl_changes_"
NAME_LENGTH_MAX = 10_000
VERSION = 1

_TYPES = {
    pascal_case(kind.name): kind
    for kind in ResourceType
    if kind not in (ResourceType.UNKNOWN, ResourceType.ANY)
}
_OPERATIONS = {pascal_case(operation.name): operation for operation in Operation}
_PERMISSIONS = {pascal_case(permission.name): permission for permission in Permission}
_FOLDERS = {PatternType.LITERAL: LITERAL_LISTS, PatternType.PREFIXED: PREFIXED_LISTS}
_NOT_IN_PATHS = re.compile("[\x00-\x1f\x7f-\x9f/\ud800-\uf8ff\ufff0-\uffff]")

FOLDERS: tuple[tuple[PatternType, ResourceType, str], ...] = tuple(
    (pattern, kind, f"{folder}/{name}")
    for pattern, folder in _FOLDERS.items()
    for name, kind in _TYPES.items()
)
PERSISTENT_PATHS = (
    LITERAL_LISTS,
    EXTENDED_LISTS,
    PREFIXED_LISTS,
    *(path for _, _, path in FOLDERS),
    LITERAL_CHANGES,
    PREFIXED_CHANGES,
)
"""What has to be there before the first list, parents first."""


def name_fault(name: str) -> str | None:
    """Why the tree cannot hold a list for this name; None if it can."""
    if name in (".", "..") or _NOT_IN_PATHS.search(name):
        return f"Resource name {name!r} cannot be the name of a node in the metadata"
    if len(name) > NAME_LENGTH_MAX:
        return f"Resource name has {len(name)} characters, of {NAME_LENGTH_MAX}"
    return None


def acl_path(resource: ResourcePattern) -> str:
    return f"{_FOLDERS[resource.pattern]}/{pascal_case(resource.type.name)}/{resource.name}"


def encode_entries(entries: Iterable[Entry]) -> bytes:
    rows = [
        {
            "principal": entry.principal,
            "permissionType": pascal_case(entry.permission.name),
            "operation": pascal_case(entry.operation.name),
            "host": entry.host,
        }
        for entry in sorted(entries)
    ]
    document = {"version": VERSION, "acls": rows}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def decode_entries(data: bytes) -> frozenset[Entry]:
    if not data:
        return frozenset()
    document = json.loads(data)
    if document["version"] != VERSION:
        raise ValueError(f"expected version {VERSION}, found {document['version']!r}")
    return frozenset(
        Entry(
            checked.text(row["principal"]),
            checked.text(row["host"]),
            _OPERATIONS[row["operation"]],
            _PERMISSIONS[row["permissionType"]],
        )
        for row in document["acls"]
    )


def change_note(resource: ResourcePattern) -> tuple[str, bytes]:
    """The path that a note about a change begins with, and what it says."""
    if resource.pattern is PatternType.LITERAL:
        return (
            f"{LITERAL_CHANGES}/{CHANGE_PREFIX}",
            f"{resource.type.name}:{resource.name}".encode(),
        )
    document = {
        "version": VERSION,
        "resourceType": resource.type.name,
        "name": resource.name,
        "patternType": resource.pattern.name,
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return f"{PREFIXED_CHANGES}/{CHANGE_PREFIX}", text.encode()


def decode_literal_note(data: bytes) -> ResourcePattern:
    kind, colon, name = data.decode().partition(":")
    if not colon:
        raise ValueError("expected TYPE:name")
    # Releases before 2.0 wrote the type as Topic or Group.
    found = _TYPES.get(kind) or ResourceType[kind.upper()]
    return ResourcePattern(found, name)


def decode_prefixed_note(data: bytes) -> ResourcePattern:
    document = json.loads(data)
    return ResourcePattern(
        ResourceType[document["resourceType"]],
        checked.text(document["name"]),
        PatternType[document["patternType"]],
    )
