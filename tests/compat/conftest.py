"""The broker under test and the clients that are pointed at it.

A Moldau broker is started once for the session. MOLDAU_TEST_BOOTSTRAP=host:port points the same
tests at any other broker instead, and MOLDAU_TEST_DATA names that broker's log directory for the
tests that look at its files. Such a broker needs the settings named in SETTINGS.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from moldau.testing.broker_process import BrokerProcess
from tests.compat.clients.catalogue import NAMES, Clients
from tests.compat.clients.port import Client
from tests.support.kerberos import NoKerberos, Realm

SETTINGS = {
    # A group's first generation would wait three seconds for more members.
    "group.initial.rebalance.delay.ms": "100",
    # Members that are killed must be missed soon.
    "group.min.session.timeout.ms": "1000",
}


class Broker(NamedTuple):
    bootstrap: str
    data: Path | None


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if named := os.environ.get("MOLDAU_TEST_BOOTSTRAP"):
        data = os.environ.get("MOLDAU_TEST_DATA")
        yield Broker(named, Path(data) if data else None)
        return
    with BrokerProcess(tmp_path_factory.mktemp("broker"), overrides=SETTINGS) as process:
        yield Broker(process.bootstrap, process.data)


@pytest.fixture(scope="session")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


@pytest.fixture(scope="session")
def clients(bootstrap: str) -> Iterator[Clients]:
    all_clients = Clients(bootstrap)
    yield all_clients
    all_clients.close()


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    try:
        found = Realm(tmp_path_factory.mktemp("realm"))
    except NoKerberos as reason:
        pytest.skip(str(reason))
    if not found.has_python_package():
        pytest.skip("Debian's package of gssapi is for another Python than this one")
    with found:
        yield found


@pytest.fixture(params=NAMES)
def client(request: pytest.FixtureRequest, clients: Clients) -> Client:
    return clients[request.param]


@pytest.fixture
def new_name() -> Callable[[str], str]:
    """Topic names that no earlier test or run has used."""
    return lambda purpose: f"{purpose}-{uuid.uuid4().hex[:12]}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of these fetches packages and builds, which may take a while on a slow line."""
    for item in items:
        if item.get_closest_marker("compat"):
            item.add_marker(pytest.mark.timeout(1200))
