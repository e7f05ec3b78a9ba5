"""What can go wrong between a client and its broker, as objects that a test switches on and off.

A fault is in force from the moment it is made until its count is used up, `end` is called, or its
`with` block is left. Faults are looked at on the proxy's loop, in the order in which they were
made; several may befall the same answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from moldau.wire.apis import APIS

if TYPE_CHECKING:
    from moldau.testing.proxy import Proxy

WAIT_SECONDS = 10.0

Rewrite = Callable[[Any], Any]


class Kind(Enum):
    DELAY = "delay"
    HOLD = "hold"
    LOSE_ANSWER = "lose answer"
    LOSE_REQUEST = "lose request"
    REWRITE = "rewrite"
    REFUSE = "refuse connections"


class Exchange(NamedTuple):
    """A request that is under way, as far as its answer needs it."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


class Fault:
    """One thing that goes wrong. `hits` counts how often it did."""

    def __init__(
        self,
        kind: Kind,
        proxy: Proxy,
        *,
        api_key: int | None = None,
        client_id: str | None = None,
        count: int | None = None,
        delay_ms: float = 0.0,
        rewrite: Rewrite | None = None,
    ) -> None:
        self.kind = kind
        self.delay_ms = delay_ms
        self.rewrite = rewrite
        self.hits = 0
        self.over = asyncio.Event()
        """For the proxy's loop: nothing is held back any more."""
        self._proxy = proxy
        self._api_key = api_key
        self._client_id = client_id
        self._count = count
        self._has_ended = False
        self._changed = threading.Condition()

    @property
    def is_active(self) -> bool:
        return not self._has_ended and (self._count is None or self.hits < self._count)

    def strikes(self, exchange: Exchange) -> bool:
        """Whether it befalls this request or answer; counted if so. On the proxy's loop only."""
        if not self.is_active:
            return False
        if self._api_key is not None and exchange.api_key != self._api_key:
            return False
        if self._client_id is not None and exchange.client_id != self._client_id:
            return False
        self.struck()
        return True

    def struck(self) -> None:
        with self._changed:
            self.hits += 1
            self._changed.notify_all()

    def wait(self, hits: int = 1, timeout: float = WAIT_SECONDS) -> None:
        """Block until it has struck so often; TimeoutError if that does not happen in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.hits >= hits, timeout):
                raise TimeoutError(
                    f"the fault ({self.kind.value}) struck {self.hits} times within {timeout} s,"
                    f" {hits} were awaited"
                )

    def end(self) -> None:
        """From now on everything goes well again; answers that were held leave."""
        if not self._has_ended:
            self._has_ended = True
            self._proxy.ended(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()


class Faults:
    """The faults of one broker, as `broker.faults`.

        with broker.faults.delay("Produce", ms=500):
            producer.send("orders", b"late").result(10)

    `api` is the name of a request ("Produce", "Fetch", "OffsetCommit") or its number, `client_id`
    limits a fault to one client's connections, `count` to so many times."""

    def __init__(self, proxy: Proxy, *, is_blind: bool = False) -> None:
        """`is_blind`: under TLS the proxy cannot tell one request from another."""
        self._proxy = proxy
        self._is_blind = is_blind

    def delay(
        self,
        api: str | int,
        *,
        ms: float,
        count: int | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Answers leave later. Those behind one on the same connection wait with it, since Kafka's
        answers come in the order of the requests.

            with broker.faults.delay("Produce", ms=500) as late:
                producer.send("orders", b"slow").result(10)
            assert late.hits == 1
        """
        return self._add(
            Kind.DELAY, api_key=api_key(api), delay_ms=ms, count=count, client_id=client_id
        )

    def hold(
        self, api: str | int, *, count: int | None = None, client_id: str | None = None
    ) -> Fault:
        """Answers do not leave before the fault ends: the broker has done its work, nobody knows.

        with broker.faults.hold("Produce") as held:
            sent = producer.send("orders", b"?")
            held.wait()              # stored, and not acknowledged
            assert not sent.done()
        sent.result(10)
        """
        return self._add(Kind.HOLD, api_key=api_key(api), count=count, client_id=client_id)

    def lose_answers(
        self, api: str | int, *, count: int | None = 1, client_id: str | None = None
    ) -> Fault:
        """The broker does its work, then the connection breaks in place of the answer: what a
        client must be able to send twice.

            broker.faults.lose_answers("Produce", count=1)
            producer.send("orders", b"once").result(10)      # sent again, stored once
        """
        return self._add(Kind.LOSE_ANSWER, api_key=api_key(api), count=count, client_id=client_id)

    def lose_requests(
        self, api: str | int, *, count: int | None = 1, client_id: str | None = None
    ) -> Fault:
        """The connection breaks before the request reaches the broker."""
        return self._add(Kind.LOSE_REQUEST, api_key=api_key(api), count=count, client_id=client_id)

    def rewrite(
        self,
        api: str | int,
        change: Rewrite,
        *,
        count: int | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Answers are changed on their way: `change` gets the decoded response (a class of
        `moldau.wire.messages`), alters it in place or returns another.

            def no_leader(answer):
                answer.topics[0].partitions[0].leader_id = -1

            with broker.faults.rewrite("Metadata", no_leader): ...
        """
        return self._add(
            Kind.REWRITE, api_key=api_key(api), rewrite=change, count=count, client_id=client_id
        )

    def refuse_connections(self) -> Fault:
        """New connections are refused, as if nobody listened; those that are open stay."""
        fault = Fault(Kind.REFUSE, self._proxy)
        self._proxy.refuse(fault)
        return fault

    def drop_connections(self, client_id: str | None = None) -> int:
        """Break the connections that are open, all or those of one client; how many they were."""
        if client_id is not None:
            self._must_see("one client")
        return self._proxy.drop(client_id)

    def end_all(self) -> None:
        """Everything goes well again."""
        for fault in self._proxy.faults:
            fault.end()

    def _add(self, kind: Kind, **limits: Any) -> Fault:
        self._must_see("requests")
        fault = Fault(kind, self._proxy, **limits)
        self._proxy.add(fault)
        return fault

    def _must_see(self, what: str) -> None:
        if self._is_blind:
            raise ValueError(
                f"under TLS faults cannot be aimed at {what}; refuse_connections and "
                "drop_connections go, and SASL_PLAINTEXT shows its requests"
            )


def api_key(api: str | int) -> int:
    """The key of a request by its name; ValueError names the nearest if there is no such."""
    by_name = {row.name.lower(): row for row in APIS}
    if isinstance(api, int):
        if any(row.key == api for row in APIS):
            return api
        raise ValueError(f"there is no request with the key {api}; Produce is 0, Fetch is 1")
    row = by_name.get(api.lower())
    if row is not None:
        return row.key
    from difflib import get_close_matches

    close = get_close_matches(api.lower(), by_name, n=1)
    hint = f"did you mean {by_name[close[0]].name!r}?" if close else "for instance 'Produce'."
    raise ValueError(f"there is no request named {api!r}; {hint}")
