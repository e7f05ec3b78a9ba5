"""Logs in as one JSON line on stdin says, sends some records with pauses, and says how it went.

`python -m tests.compat.clients.login_probe NAME`: one of the clients in Python, in a process of its
own, because some leave sockets open after a log-in that failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
import sys
import time
from typing import Any

SECONDS_MAX = 60


def with_confluent(asked: dict[str, Any]) -> None:
    from confluent_kafka import KafkaError, KafkaException, Producer

    faults: list[KafkaError] = []
    options = {
        "bootstrap.servers": asked["bootstrap"],
        "security.protocol": asked["protocol"],
        "error_cb": faults.append,
    }
    if asked["ca"]:
        options["ssl.ca.location"] = asked["ca"]
    if asked["pair"]:
        options["ssl.certificate.location"] = options["ssl.key.location"] = asked["pair"]
    if asked["mechanism"]:
        options["sasl.mechanism"] = asked["mechanism"]
        options["sasl.username"], options["sasl.password"] = asked["user"], asked["password"]
    producer = Producer(options)
    done: list[Any] = []
    deadline = time.monotonic() + SECONDS_MAX
    for number in range(asked["sends"]):
        wanted = number + 1
        producer.produce(
            asked["topic"], str(number), on_delivery=lambda fault, _: done.append(fault)
        )
        while len(done) < wanted:
            producer.poll(0.1)
            for fault in faults:
                if fault.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
                    producer.purge()
                    raise KafkaException(fault)
            assert time.monotonic() < deadline, f"neither sent nor refused: {faults}"
        if done[-1] is not None:
            raise KafkaException(done[-1])
        time.sleep(asked["pause_ms"] / 1000)


def with_kafka_python(asked: dict[str, Any]) -> None:
    from kafka import KafkaProducer

    options: dict[str, Any] = {}
    if asked["ca"]:
        options["ssl_cafile"] = asked["ca"]
    if asked["pair"]:
        options["ssl_certfile"] = options["ssl_keyfile"] = asked["pair"]
    if asked["mechanism"]:
        options["sasl_mechanism"] = asked["mechanism"]
        options["sasl_plain_username"] = asked["user"]
        options["sasl_plain_password"] = asked["password"]
    producer = KafkaProducer(
        bootstrap_servers=asked["bootstrap"],
        security_protocol=asked["protocol"],
        bootstrap_timeout_ms=20_000,
        **options,
    )
    for number in range(asked["sends"]):
        producer.send(asked["topic"], str(number).encode()).get(SECONDS_MAX)
        time.sleep(asked["pause_ms"] / 1000)
    producer.close(timeout=5)


def with_aiokafka(asked: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaProducer

    options: dict[str, Any] = {}
    if asked["ca"]:
        context = ssl.create_default_context(cafile=asked["ca"])
        if asked["pair"]:
            context.load_cert_chain(asked["pair"])
        options["ssl_context"] = context
    if asked["mechanism"]:
        options["sasl_mechanism"] = asked["mechanism"]
        options["sasl_plain_username"] = asked["user"]
        options["sasl_plain_password"] = asked["password"]

    async def send() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=asked["bootstrap"], security_protocol=asked["protocol"], **options
        )
        try:
            await producer.start()
            for number in range(asked["sends"]):
                await producer.send_and_wait(asked["topic"], str(number).encode())
                await asyncio.sleep(asked["pause_ms"] / 1000)
        finally:
            with contextlib.suppress(Exception):
                await producer.stop()

    asyncio.run(asyncio.wait_for(send(), SECONDS_MAX))


CLIENTS = {
    "confluent-kafka": with_confluent,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
}


class Heard(logging.Handler):
    """Two of them say only in their log why they could not log in."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += f"{record.getMessage()} {record.exc_info or ''}\n"


def kind_of(text: str) -> str:
    if "uthentication failed" in text or "AuthenticationFailed" in text:
        return "login"
    if "certificate verify failed" in text or "CERTIFICATE_VERIFY_FAILED" in text:
        return "tls"
    return "other"


def main(name: str) -> int:
    heard = Heard()
    logging.getLogger().addHandler(heard)
    told: dict[str, Any] = {"ok": True}
    try:
        CLIENTS[name](json.loads(sys.stdin.read()))
    except Exception as fault:
        text = f"{fault!r} {fault.__cause__!r}"
        told = {"error": text, "kind": kind_of(f"{text} {heard.text}")}
    print(json.dumps(told), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
