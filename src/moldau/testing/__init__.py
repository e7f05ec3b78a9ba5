"""Brokers for tests: real ones, fresh and isolated, that can be made to fail.

    import moldau.testing

    with moldau.testing.broker() as broker:
        broker.create_topic("orders", partitions=3)
        broker.producer().send("orders", b"3 apples").get(10)
        assert broker.read("orders", count=1)[0].value == b"3 apples"

With pytest the fixtures `moldau_broker` and `moldau_broker_in_process` give the same object. Names
are loaded when first used, so that an installed but unused plugin costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""True to type checkers, who know the name; `typing` is too slow to import for one flag."""

if TYPE_CHECKING:
    from typing import Any

    from moldau.testing.faults import Fault as Fault
    from moldau.testing.faults import Faults as Faults
    from moldau.testing.local_broker import BrokerNotRunningError as BrokerNotRunningError
    from moldau.testing.local_broker import LocalBroker as LocalBroker
    from moldau.testing.local_broker import broker as broker

__all__ = ["BrokerNotRunningError", "Fault", "Faults", "LocalBroker", "broker"]

_HOMES = {
    "BrokerNotRunningError": "local_broker",
    "Fault": "faults",
    "Faults": "faults",
    "LocalBroker": "local_broker",
    "broker": "local_broker",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'moldau.testing' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"moldau.testing.{_HOMES[name]}"), name)
    return found
