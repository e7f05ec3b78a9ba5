"""Where quotas stand in the znode tree: the layout of Kafka 3.9.

Pure. A user's node holds credentials beside quotas, so its quotas are only a part of what is read
and written there. Paths are those behind /config/, as notes about changes name them.
"""

from __future__ import annotations

from typing import Final

from moldau.metadata import paths
from moldau.security.quotas.quota_entities import CLIENT_ID, IP, USER, QuotaEntity

USERS: Final = "users"
CLIENTS: Final = "clients"
IPS: Final = "ips"
FOLDERS: Final = {USERS: USER, CLIENTS: CLIENT_ID, IPS: IP}
DEFAULT: Final = "<default>"


def entity_path(entity: QuotaEntity) -> str:
    """For example users/alice/clients/<default>."""
    folders = {kind: folder for folder, kind in FOLDERS.items()}
    return "/".join(f"{folders[kind]}/{_part_of(name)}" for kind, name in entity)


def entity_at(path: str) -> QuotaEntity | None:
    """None if the path is about something else. Raises ValueError for a name that is none."""
    match path.split("/"):
        case [folder, part] if folder in FOLDERS and part:
            return ((FOLDERS[folder], _name_of(part)),)
        case [folder, user, clients, client] if (folder, clients) == (USERS, CLIENTS):
            return ((USER, _name_of(user)), (CLIENT_ID, _name_of(client)))
    return None


def node_path(path: str) -> str:
    return f"/config/{path}"


def parents_of(path: str) -> list[str]:
    """What has to be there before it, besides what every tree has."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(2, len(parts))]


def name_fault(entity: QuotaEntity) -> str | None:
    """No store takes a name without bounds as a part of a path."""
    for kind, name in entity:
        if name is not None and len(_part_of(name)) > paths.ENTITY_NAME_LENGTH_MAX:
            return f"The name of the {kind} is too long to be stored."
    return None


def _part_of(name: str | None) -> str:
    return DEFAULT if name is None else paths.entity_name(name)


def _name_of(part: str) -> str | None:
    return None if part == DEFAULT else paths.name_of_entity(part)
