"""How clients come to a cluster: its address, and what they need to be let in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Reach(NamedTuple):
    bootstrap: str
    own: Mapping[str, str] = {}
    """What Moldau's clients are told besides."""
    foreign: Mapping[str, str] = {}
    """What librdkafka is told besides."""

    @property
    def moldau(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap, **self.own}

    @property
    def librdkafka(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap, **self.foreign}
