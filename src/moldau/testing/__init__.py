"""Brokers for tests: real ones, fresh and isolated, that can be made to fail.

    import moldau.testing

    with moldau.testing.broker() as broker:
        broker.create_topic("orders", partitions=3)
        broker.producer().send("orders", b"3 apples").result(10)
        assert broker.read("orders", count=1)[0].value == b"3 apples"

`broker(security="SASL_SSL")` is a secured one, with its own authority and users; see `Security`.
With pytest the fixtures `moldau_broker`, `moldau_broker_in_process` and `moldau_cluster` give the
same objects, `moldau_fork` gives brokers that begin as a snapshot. `cluster()` has several brokers
on a ZooKeeper, `zookeeper()` is that alone; both need Java. `BrokerProcess` is the bare process,
for tests of how it starts and ends. Names are loaded when first used, so that an installed but
unused plugin costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""True to type checkers, who know the name; `typing` is too slow to import for one flag."""

if TYPE_CHECKING:
    from typing import Any

    from moldau.testing.broker_process import BrokerProcess as BrokerProcess
    from moldau.testing.broker_process import BrokerStartError as BrokerStartError
    from moldau.testing.broker_process import BrokerStopError as BrokerStopError
    from moldau.testing.broker_security import Security as Security
    from moldau.testing.forks import fork as fork
    from moldau.testing.local_broker import BrokerNotRunningError as BrokerNotRunningError
    from moldau.testing.local_broker import LocalBroker as LocalBroker
    from moldau.testing.local_broker import broker as broker
    from moldau.testing.local_cluster import LocalCluster as LocalCluster
    from moldau.testing.local_cluster import cluster as cluster
    from moldau.testing.network_faults import Fault as Fault
    from moldau.testing.network_faults import Faults as Faults
    from moldau.testing.zookeeper_process import ZooKeeperProcess as ZooKeeperProcess
    from moldau.testing.zookeeper_process import ZooKeeperStartError as ZooKeeperStartError
    from moldau.testing.zookeeper_process import ensemble as ensemble
    from moldau.testing.zookeeper_process import zookeeper as zookeeper

__all__ = [
    "BrokerNotRunningError",
    "BrokerProcess",
    "BrokerStartError",
    "BrokerStopError",
    "Fault",
    "Faults",
    "LocalBroker",
    "LocalCluster",
    "Security",
    "ZooKeeperProcess",
    "ZooKeeperStartError",
    "broker",
    "cluster",
    "ensemble",
    "fork",
    "zookeeper",
]

_HOMES = {
    "BrokerNotRunningError": "local_broker",
    "BrokerProcess": "broker_process",
    "BrokerStartError": "broker_process",
    "BrokerStopError": "broker_process",
    "Fault": "network_faults",
    "Faults": "network_faults",
    "LocalBroker": "local_broker",
    "LocalCluster": "local_cluster",
    "Security": "broker_security",
    "ZooKeeperProcess": "zookeeper_process",
    "ZooKeeperStartError": "zookeeper_process",
    "broker": "local_broker",
    "cluster": "local_cluster",
    "ensemble": "zookeeper_process",
    "fork": "forks",
    "zookeeper": "zookeeper_process",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'moldau.testing' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"moldau.testing.{_HOMES[name]}"), name)
    return found
