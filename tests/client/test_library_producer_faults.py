"""The producer when connections break and brokers die: nothing lost, nothing doubled, in order.

These need a broker of their own behind a proxy that swallows answers, so they are about Moldau's.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau import Admin
from moldau.client.producer.blocking_producer import Producer
from moldau.client.shared import client_errors as errors
from moldau.testing.broker_process import BrokerProcess, free_port
from tests.support.eventually import eventually

FAST = {"retry_backoff_ms": 5, "reconnect_backoff_ms": 5, "reconnect_backoff_max_ms": 20}


class Proxy:
    """Passes bytes on; every so many answers it swallows one and breaks the connection."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.swallow_every = 0
        self.swallowed = 0
        self.is_silent = False
        self._answers = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self.target_port))
            except OSError:
                return
            self._sockets += [client, broker]
            for args in ((client, broker, False), (broker, client, True)):
                threading.Thread(target=self._pass, args=args, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        try:
            while data := source.recv(65536):
                if is_answer:
                    if self.is_silent:
                        continue
                    self._answers += 1
                    if self.swallow_every and self._answers % self.swallow_every == 0:
                        self.swallowed += 1
                        break
                target.sendall(data)
        except OSError:
            pass
        finally:
            for each in (source, target):
                # Both directions have to notice, and `close` alone does not wake a reader.
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self) -> None:
        self._listener.close()
        for each in self._sockets:
            each.close()


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    port = free_port()
    proxy = Proxy(port)
    broker = BrokerProcess(
        tmp_path,
        port=port,
        overrides={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"},
    )
    with broker:
        yield proxy
    proxy.close()


def stored(bootstrap: str, topic: str) -> list[bytes]:
    from tests.client.test_library_producer import values

    found: list[bytes] = values(bootstrap, topic)
    return found


def test_lost_acknowledgements_leave_each_record_once_and_in_order(proxy: Proxy) -> None:
    bootstrap = f"127.0.0.1:{proxy.port}"
    sent = [b"%d" % n for n in range(2000)]
    with Producer(bootstrap_servers=bootstrap, batch_size=300, **FAST) as producer:
        producer.send("t", sent[0]).result(10)
        proxy.swallow_every = 5
        for value in sent[1:]:
            producer.send("t", value)
        producer.flush(60)
        proxy.swallow_every = 0
        assert producer.metrics()["record-retry-total"] > 0
    assert proxy.swallowed > 2
    assert stored(bootstrap, "t") == sent


def test_without_idempotence_lost_acknowledgements_double_records(proxy: Proxy) -> None:
    bootstrap = f"127.0.0.1:{proxy.port}"
    with Producer(bootstrap_servers=bootstrap, enable_idempotence=False, **FAST) as producer:
        producer.send("t", b"first").result(10)
        proxy.swallow_every = 1
        delivery = producer.send("t", b"twice")
        while not producer.metrics()["record-retry-total"]:
            pass
        proxy.swallow_every = 0
        delivery.result(10)
    assert stored(bootstrap, "t").count(b"twice") > 1


def test_after_records_of_unknown_fate_the_producer_goes_on_in_a_new_epoch(proxy: Proxy) -> None:
    bootstrap = f"127.0.0.1:{proxy.port}"
    with Producer(
        bootstrap_servers=bootstrap,
        delivery_timeout_ms=700,
        request_timeout_ms=300,
        socket_connection_setup_timeout_ms=200,
        linger_ms=0,
        **FAST,
    ) as producer:
        producer.send("t", b"before").result(10)
        proxy.is_silent = True
        lost = producer.send("t", b"who knows")
        with pytest.raises(errors.KafkaTimeoutError):
            lost.result(10)
        proxy.is_silent = False
        producer.send("t", b"after").result(10)
        assert producer.producer_epoch == 1
    assert stored(bootstrap, "t") in ([b"before", b"who knows", b"after"], [b"before", b"after"])


@pytest.mark.parametrize("version", [1, 2])
def test_after_an_abort_with_records_of_unknown_fate_the_next_transaction_goes_on(
    proxy: Proxy, version: int
) -> None:
    bootstrap = f"127.0.0.1:{proxy.port}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.update_features({"transaction.version": version}, upgrade_type=2).check()
    with Producer(
        bootstrap_servers=bootstrap,
        transactional_id="x",
        request_timeout_ms=500,
        linger_ms=0,
        **FAST,
    ) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"before").result(30)
        producer.begin_transaction()
        producer.send("t", b"aborted").result(30)
        proxy.is_silent = True
        lost = producer.send("t", b"who knows")
        aborting = threading.Thread(target=producer.abort_transaction)
        eventually(lambda: producer.metrics()["requests-in-flight"] > 0)
        aborting.start()
        with pytest.raises(errors.KafkaError):
            lost.result(30)
        proxy.is_silent = False
        aborting.join(60)
        assert not aborting.is_alive()
        with producer.transaction():
            producer.send("t", b"after").result(30)
    assert stored(bootstrap, "t") == [b"before", b"after"]


def test_a_broker_killed_and_restarted_costs_no_record(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    with broker, Producer(bootstrap_servers=broker.bootstrap, batch_size=500, **FAST) as producer:
        sent = [b"%d" % n for n in range(6000)]
        for n, value in enumerate(sent):
            producer.send("t", value)
            if n == 2000:
                producer.send("u", b"").result(10)
                broker.kill()
            if n == 4000:
                broker.start()
        producer.flush(60)
        assert stored(broker.bootstrap, "t") == sent


def test_records_for_a_broker_that_never_answers_fail_after_delivery_timeout(
    tmp_path: Path,
) -> None:
    broker = BrokerProcess(tmp_path)
    with (
        broker,
        Producer(
            bootstrap_servers=broker.bootstrap,
            delivery_timeout_ms=400,
            request_timeout_ms=300,
            **FAST,
        ) as producer,
    ):
        producer.send("t", b"x").result(10)
        broker.kill()
        heard: list[BaseException | None] = []
        delivery = producer.send("t", b"y", on_delivery=lambda m, e: heard.append(e))
        with pytest.raises(errors.KafkaTimeoutError):
            delivery.result(10)
        producer.flush(10)
        assert isinstance(heard[0], errors.KafkaTimeoutError)
        assert producer.metrics()["buffer-available-bytes"] == 32 * 1024 * 1024


def test_an_unreachable_bootstrap_is_named_in_one_sentence() -> None:
    with (
        Producer(bootstrap_servers=f"127.0.0.1:{free_port()}", max_block_ms=200) as producer,
        pytest.raises(errors.KafkaTimeoutError, match=r"within|after"),
    ):
        producer.send("t", b"x")


def test_a_full_buffer_raises_after_max_block_ms(proxy: Proxy) -> None:
    bootstrap = f"127.0.0.1:{proxy.port}"
    with Producer(
        bootstrap_servers=bootstrap, max_block_ms=2_000, buffer_memory=3000, batch_size=1000, **FAST
    ) as producer:
        producer.send("t", b"x").result(30)
        proxy.is_silent = True
        with pytest.raises(errors.BufferExhaustedError):
            for _ in range(10):
                producer.send("t", b"x" * 900)
        producer.close(0)
