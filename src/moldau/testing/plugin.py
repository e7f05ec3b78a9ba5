"""The pytest plugin: fixtures that give a broker. Installed with Moldau, loaded by pytest itself.

    def test_orders_arrive(moldau_broker):
        moldau_broker.create_topic("orders")
        moldau_broker.producer().send("orders", b"1").result(10)
        assert moldau_broker.read("orders", count=1)[0].value == b"1"

Nothing of Moldau is imported before a test asks for a broker. `-p no:moldau` leaves it out.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from moldau.testing.broker_security import Security
    from moldau.testing.local_broker import LocalBroker
    from moldau.testing.local_cluster import LocalCluster


@pytest.fixture
def moldau_broker_settings() -> Mapping[str, Any]:
    """Settings of the broker, as in server.properties: override it where a test needs others."""
    return {}


@pytest.fixture
def moldau_broker_security() -> Security | str | None:
    """How the broker is secured: override it with "SASL_SSL", "SSL", "SASL_PLAINTEXT", or a
    `moldau.testing.Security`."""
    return None


@pytest.fixture
def moldau_broker(
    tmp_path: Path,
    moldau_broker_settings: Mapping[str, Any],
    moldau_broker_security: Security | str | None,
) -> Iterator[LocalBroker]:
    """A fresh broker in a process of its own, for one test."""
    from moldau.testing.local_broker import LocalBroker

    directory = tmp_path / "moldau"
    security = moldau_broker_security
    with LocalBroker(directory, moldau_broker_settings, security=security) as broker:
        yield broker


@pytest.fixture
def moldau_broker_in_process(
    tmp_path: Path,
    moldau_broker_settings: Mapping[str, Any],
    moldau_broker_security: Security | str | None,
) -> Iterator[LocalBroker]:
    """A fresh broker on a thread of the tests' process: faster, but not to be killed or paused."""
    from moldau.testing.local_broker import LocalBroker

    directory = tmp_path / "moldau-in-process"
    security = moldau_broker_security
    settings = moldau_broker_settings
    with LocalBroker(directory, settings, in_process=True, security=security) as broker:
        yield broker


@pytest.fixture
def moldau_fork(tmp_path: Path) -> Iterator[Callable[..., LocalBroker]]:
    """`moldau_fork("/var/lib/kafka-snapshots/before-release")` is a broker that begins with what
    the snapshot holds; settings and options as for `moldau.testing.broker`."""
    import contextlib

    from moldau.testing.forks import fork_broker

    with contextlib.ExitStack() as stack:

        def made(snapshot: str | os.PathLike[str], *settings: Any, **options: Any) -> LocalBroker:
            directory = tempfile.mkdtemp(prefix="fork-", dir=tmp_path)
            broker = fork_broker(snapshot, directory, *settings, **options)
            return stack.enter_context(broker)

        yield made


@pytest.fixture
def moldau_cluster(
    tmp_path: Path, moldau_broker_settings: Mapping[str, Any]
) -> Iterator[LocalCluster]:
    """Three fresh brokers on a ZooKeeper, for one test; needs Java."""
    from moldau.testing.local_cluster import cluster

    with cluster(moldau_broker_settings, directory=tmp_path / "moldau-cluster") as made:
        yield made
