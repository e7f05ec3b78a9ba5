"""`meta.properties`: whose log directory this is, as Apache Kafka 4.3 writes it (version 1)."""

from __future__ import annotations

import os
from typing import NamedTuple

from moldau.config.properties import PropertiesError, format_properties, parse_properties
from moldau.model.names import uuid_text
from moldau.storage.faults import CorruptFile
from moldau.storage.files import read_whole, write_whole

FILE_NAME = "meta.properties"
VERSION = "1"


class MetaProperties(NamedTuple):
    node_id: int | None = None
    cluster_id: str | None = None
    directory_id: str | None = None


def read_meta_properties(directory: str) -> MetaProperties:
    """What the directory says of itself; nothing if it is new. Version 0, which brokers of the
    ZooKeeper era wrote, calls the node id `broker.id`."""
    path = os.path.join(directory, FILE_NAME)
    content = read_whole(path)
    if content is None:
        return MetaProperties()
    try:
        properties = parse_properties(content.decode("utf-8"))
    except (UnicodeDecodeError, PropertiesError) as error:
        raise CorruptFile(path, f"not a properties file ({error})") from None
    version = properties.get("version", "0")
    if version not in ("0", VERSION):
        raise CorruptFile(path, f"unknown version {version!r}")
    node_id = properties.get("node.id", properties.get("broker.id"))
    if node_id is not None and not node_id.isdigit():
        raise CorruptFile(path, f"node.id {node_id!r} is not a number")
    return MetaProperties(
        None if node_id is None else int(node_id),
        properties.get("cluster.id"),
        properties.get("directory.id"),
    )


def write_meta_properties(directory: str, meta: MetaProperties) -> None:
    properties = {"version": VERSION, "node.id": str(meta.node_id)}
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
