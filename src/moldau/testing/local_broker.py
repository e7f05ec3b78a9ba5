"""A broker for one test: started, handed out, made to fail, thrown away.

`broker()` is the way in without pytest; the plugin's fixtures give the same `LocalBroker`. Clients
talk to it through a proxy (see proxy.py), unless the test does without faults.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.testing.broker_process import HOST, BrokerStartError, free_port
from moldau.testing.broker_runners import ProcessRunner, Runner, ThreadRunner
from moldau.testing.broker_security import Security
from moldau.testing.network_faults import Faults
from moldau.testing.proxy import Proxy

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin
    from moldau.client.consumer.blocking_consumer import Consumer
    from moldau.client.consumer.consumer_records import ConsumerRecord
    from moldau.client.producer.blocking_producer import Producer

SETTINGS = {
    "broker.id": "0",
    # Few partitions: the first group and the first transaction need not wait for many files.
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # A group starts with its first member, and does not wait whether others come.
    "group.initial.rebalance.delay.ms": "0",
}
START_TRIES = 3
CLOSE_SECONDS = 5.0
READ_SECONDS = 10.0
POLL_SECONDS = 0.2


class BrokerNotRunningError(RuntimeError):
    """The test asks for something that only a running broker can do."""


class LocalBroker:
    """A real broker with a directory and a port of its own.

        with moldau.testing.broker() as broker:
            broker.create_topic("orders")
            producer = broker.producer()
            producer.send("orders", b"1").result(10)
            broker.kill()
            broker.restart()
            assert broker.read("orders", count=1)[0].value == b"1"

    Clients that come from it are closed with it. Without `with` call `start` and `close`."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        settings: Mapping[str, Any] | None = None,
        *,
        in_process: bool = False,
        with_faults: bool = True,
        security: Security | str | None = None,
    ) -> None:
        self.directory = Path(directory)
        self._security = Security.of(security)
        self._given = {key: _text(value) for key, value in (settings or {}).items()}
        self._runner: Runner = ThreadRunner() if in_process else ProcessRunner(self.directory)
        self._with_faults = with_faults
        self._proxy: Proxy | None = None
        self._port = 0
        self._is_paused = False
        self._closers: list[Callable[[float], None]] = []
        self._numbers = itertools.count(1)

    # Where it is

    @property
    def port(self) -> int:
        """Where clients connect; the same after a restart."""
        return self._port if self._proxy is None else self._proxy.port

    @property
    def bootstrap(self) -> str:
        """For any Kafka client: its bootstrap.servers."""
        return f"{HOST}:{self.port}"

    @property
    def security(self) -> Security:
        """How it is secured: for settings of other users, and certificates."""
        if self._security is None:
            raise BrokerNotRunningError(
                'this broker is not secured: make it with security="SASL_SSL"'
            )
        return self._security

    @property
    def client_settings(self) -> dict[str, str]:
        """What Moldau's clients, and Java's, need to reach it and to be let in."""
        own = {} if self._security is None else self._security.client_settings()
        return {"bootstrap.servers": self.bootstrap, **own}

    @property
    def librdkafka_settings(self) -> dict[str, str]:
        """The same for confluent-kafka and whatever else is made of librdkafka."""
        own = {} if self._security is None else self._security.librdkafka_settings()
        return {"bootstrap.servers": self.bootstrap, **own}

    @property
    def data(self) -> Path:
        """The broker's log.dirs."""
        return self.directory / "data"

    @property
    def log_text(self) -> str:
        """What the process has printed; empty for a broker in this process."""
        return self._runner.log_text

    @property
    def is_running(self) -> bool:
        return self._runner.is_running

    @property
    def pid(self) -> int:
        """Of the broker's process; of this one if the broker runs in it."""
        pid = getattr(self._runner, "pid", os.getpid())
        if pid is None:
            raise BrokerNotRunningError("the broker is not running, so it has no process id")
        return int(pid)

    @property
    def faults(self) -> Faults:
        """Faults between clients and the broker, see `Faults`."""
        if self._proxy is None:
            raise BrokerNotRunningError(
                "this broker has no faults: it was not started, or was made with_faults=False"
            )
        return Faults(self._proxy, is_blind=self._security is not None and self._security.has_tls)

    # Its life

    def start(self) -> None:
        """Return once it accepts connections."""
        if self.is_running:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._with_faults and self._proxy is None:
            self._proxy = Proxy()
        if self._security is not None:
            self._security.prepare(self.directory, self.data)
            self._runner.probe_context = self._security.probe_context()
        for tries_left in reversed(range(START_TRIES)):
            port = self._port or free_port()
            try:
                self._runner.start(self._settings(port), port)
                break
            except BrokerStartError as fault:
                # Somebody may have taken the port between its choice and its use.
                if not tries_left or self._port or "already in use" not in str(fault):
                    raise
        self._port = port
        if self._proxy is not None:
            self._proxy.open(port)

    def stop(self) -> None:
        """In order, as by SIGTERM; clients see their connections close."""
        self.resume()
        self._runner.stop()
        self._shut()

    def kill(self) -> None:
        """kill -9: whatever was not on its way to disk is gone."""
        self._require_running("kill")
        self._runner.kill()
        self._is_paused = False
        self._shut()

    def restart(self) -> None:
        """Stop, if it runs, and start again on the same port with the same data."""
        if self.is_running:
            self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered, as on a machine that hangs."""
        self._require_running("pause")
        self._runner.pause()
        self._is_paused = True

    def resume(self) -> None:
        """SIGCONT: it goes on where it was."""
        if self._is_paused:
            self._runner.resume()
            self._is_paused = False

    def close(self) -> None:
        """Close the clients that came from here, stop the broker, let go of the port."""
        if self._proxy is not None:
            self.faults.end_all()
        self.resume()
        self._close_clients()
        self.stop()
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            proxy.close()
            if proxy.mishaps:
                raise proxy.mishaps[0]

    def __enter__(self) -> LocalBroker:
        try:
            self.start()
        except BrokerStartError:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # What tests do with it

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, Any] | None = None,
        *,
        replication_factor: int = 1,
    ) -> str:
        """The topic's name, once it can be written to.

        broker.create_topic("orders", 3, {"retention.ms": 1000})
        """
        from moldau.client.admin.admin_results import NewTopic

        texts = {key: _text(value) for key, value in (configs or {}).items()}
        with self._own_admin() as admin:
            admin.create_topics([NewTopic(name, partitions, replication_factor, texts)]).check()
        return name

    def producer(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> Producer:
        """A producer of this broker; settings as for `moldau.Producer`.

        broker.producer(acks="all", linger_ms=0).send("orders", b"1").result(10)
        """
        from moldau.client.producer.blocking_producer import Producer

        producer = Producer(self._client_settings(config), **settings)
        self._closers.append(producer.close)
        return producer

    def consumer(
        self, *topics: str, config: Mapping[str, Any] | None = None, **settings: Any
    ) -> Consumer:
        """A consumer of this broker that has subscribed to the topics. Unless told otherwise it
        reads from the beginning, in a group of its own.

            for record in broker.consumer("orders", group_id="billing").poll(10): ...
        """
        from moldau.client.consumer.blocking_consumer import Consumer

        defaults = {"auto.offset.reset": "earliest", "group.id": f"test-{next(self._numbers)}"}
        given = {key.replace("_", "."): value for key, value in settings.items()}
        merged = {**defaults, **self._client_settings(config), **given}
        consumer = Consumer(merged)
        self._closers.append(consumer.close)
        if topics:
            consumer.subscribe(list(topics))
        return consumer

    def admin(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> Admin:
        """An admin client of this broker.

        broker.admin().describe_topics(["orders"]).check()
        """
        from moldau.client.admin.blocking_admin import Admin

        admin = Admin(self._client_settings(config), **settings)
        self._closers.append(lambda seconds: admin.close())
        return admin

    def read(
        self, topic: str, count: int, *, timeout: float = READ_SECONDS, **settings: Any
    ) -> list[ConsumerRecord]:
        """The first `count` records of a topic; TimeoutError if there are fewer.

        values = [record.value for record in broker.read("orders", count=3)]
        """
        from moldau.client.consumer.blocking_consumer import Consumer

        own = {**self._client_settings(None), "auto.offset.reset": "earliest"}
        records: list[ConsumerRecord] = []
        deadline = time.monotonic() + timeout
        with Consumer(own, **settings) as consumer:
            consumer.assign([(topic, each.partition) for each in consumer.partitions_for(topic)])
            while len(records) < count:
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"{topic} gave {len(records)} records within {timeout} s,"
                        f" {count} were awaited"
                    )
                records += consumer.poll(POLL_SECONDS)
        return records[:count]

    # The insides

    def _settings(self, port: int) -> dict[str, str]:
        settings = {**SETTINGS, "log.dirs": str(self.data)}
        address = f"{HOST}:{port}"
        advertised = None if self._proxy is None else f"{HOST}:{self._proxy.port}"
        if self._security is not None:
            return {
                **settings,
                **self._security.broker_settings(address, advertised),
                **self._given,
            }
        settings["listeners"] = f"PLAINTEXT://{address}"
        if advertised is not None:
            settings["advertised.listeners"] = f"PLAINTEXT://{advertised}"
        return {**settings, **self._given}

    def _client_settings(self, config: Mapping[str, Any] | None) -> dict[str, Any]:
        return {**self.client_settings, **(config or {})}

    def _own_admin(self) -> Admin:
        from moldau.client.admin.blocking_admin import Admin

        return Admin(self._client_settings(None))

    def _close_clients(self) -> None:
        from moldau.client.shared.client_errors import KafkaError

        closers, self._closers = self._closers, []
        seconds = CLOSE_SECONDS if self.is_running else 0.0
        for close in reversed(closers):
            # What a client could not deliver is the test's affair; here it only has to go.
            with contextlib.suppress(KafkaError):
                close(seconds)

    def _shut(self) -> None:
        if self._proxy is not None:
            self._proxy.shut()

    def _require_running(self, what: str) -> None:
        if not self.is_running:
            raise BrokerNotRunningError(f"the broker is not running, so {what} has no meaning")


@contextlib.contextmanager
def broker(
    settings: Mapping[str, Any] | None = None,
    *,
    in_process: bool = False,
    with_faults: bool = True,
    security: Security | str | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> Iterator[LocalBroker]:
    """A broker for the length of a `with` block.

        with moldau.testing.broker({"num.partitions": 3}) as broker:
            print(broker.bootstrap)

    `settings` are those of server.properties. `in_process` runs it on a thread of this process:
    faster to start, but it cannot be killed or paused. `with_faults=False` leaves out the proxy, so
    that clients reach the broker directly, for tests that measure. `security` is a protocol ("SSL",
    "SASL_SSL", "SASL_PLAINTEXT") or a `Security`. Without a `directory` the data goes to a
    temporary one and is removed at the end."""
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="moldau-"))
        yield stack.enter_context(
            LocalBroker(
                directory,
                settings,
                in_process=in_process,
                with_faults=with_faults,
                security=security,
            )
        )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
