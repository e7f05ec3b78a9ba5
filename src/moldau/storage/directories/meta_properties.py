"""`meta.properties`: whose log directory this is, as Apache Kafka writes it.

Brokers on ZooKeeper write version 0, and refuse any other; those without write version 1. A file
keeps the version it has, so that whoever used the directory before can have it back.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from moldau.config.properties import PropertiesError, format_properties, parse_properties
from moldau.model.names import uuid_text
from moldau.storage.log_files import read_whole, write_whole
from moldau.storage.storage_faults import CorruptFile

FILE_NAME = "meta.properties"
VERSION = "1"
VERSION_OF_ZOOKEEPER = "0"


class MetaProperties(NamedTuple):
    node_id: int | None = None
    cluster_id: str | None = None
    directory_id: str | None = None


def read_meta_properties(directory: str) -> MetaProperties:
    """What the directory says of itself; nothing if it is new. Version 0 calls the node id
    `broker.id`."""
    path = os.path.join(directory, FILE_NAME)
    properties = _read(path)
    if properties is None:
        return MetaProperties()
    node_id = properties.get("node.id", properties.get("broker.id"))
    if node_id is not None and not node_id.isdigit():
        raise CorruptFile(path, f"node.id {node_id!r} is not a number")
    return MetaProperties(
        None if node_id is None else int(node_id),
        properties.get("cluster.id"),
        properties.get("directory.id"),
    )


def _read(path: str) -> dict[str, str] | None:
    content = read_whole(path)
    if content is None:
        return None
    try:
        properties = parse_properties(content.decode("utf-8"))
    except (UnicodeDecodeError, PropertiesError) as error:
        raise CorruptFile(path, f"not a properties file ({error})") from None
    version = properties.setdefault("version", VERSION_OF_ZOOKEEPER)
    if version not in (VERSION_OF_ZOOKEEPER, VERSION):
        raise CorruptFile(path, f"unknown version {version!r}")
    return properties


def write_meta_properties(directory: str, meta: MetaProperties) -> None:
    """In the version that is there; a new file gets the newest one."""
    before = _read(os.path.join(directory, FILE_NAME))
    _write(directory, meta, VERSION if before is None else before["version"])


def join_zookeeper(directory: str) -> None:
    """Let the file be one that brokers on ZooKeeper take."""
    before = _read(os.path.join(directory, FILE_NAME))
    if before is None or before["version"] != VERSION_OF_ZOOKEEPER:
        _write(directory, read_meta_properties(directory), VERSION_OF_ZOOKEEPER)


def _write(directory: str, meta: MetaProperties, version: str) -> None:
    id_key = "broker.id" if version == VERSION_OF_ZOOKEEPER else "node.id"
    properties = {"version": version, id_key: str(meta.node_id)}
    if meta.directory_id is not None:
        properties["directory.id"] = meta.directory_id
    if meta.cluster_id is not None:
        properties["cluster.id"] = meta.cluster_id
    write_whole(os.path.join(directory, FILE_NAME), format_properties(properties).encode())


def random_id() -> str:
    """An id in the form people see; one that starts with a dash would look like an option."""
    while True:
        text = uuid_text(os.urandom(16))
        if not text.startswith("-"):
            return text
