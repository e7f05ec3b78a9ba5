"""A requested change of configuration, as handlers hand it to the controller."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple


class ResourceType(IntEnum):
    """What a configuration belongs to, numbered as in the protocol."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


DEFAULT_BROKER = "<default>"
"""Stands for every broker, where a broker's id is expected."""


class ConfigChange(NamedTuple):
    resource_type: ResourceType
    resource_name: str
    """A topic, a broker id as text, DEFAULT_BROKER, a group id, or a subscription's name."""
    overrides: Mapping[str, str | None]
    """None deletes the override of that key."""
    replace_all: bool = False
    """Drop every override that is not named here, as AlterConfigs does."""

    def __repr__(self) -> str:
        """For logs: values may be passwords."""
        whose = f"{self.resource_type.name} {self.resource_name!r}"
        return f"ConfigChange({whose} sets {sorted(self.overrides)})"
