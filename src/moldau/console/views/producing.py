"""Send one record: the form, and what it means."""

from __future__ import annotations

import json
from typing import Any

from moldau.aio import Producer
from moldau.config.client_settings.producer_settings import ProducerConfig
from moldau.console.commands import command
from moldau.console.page import Asked, PageFault, Plan, Shown
from moldau.console.records.record_choices import choices_of, partitions_of
from moldau.console.views.records import reading_of, topic_path

KINDS = {"text": "text", "json": "JSON", "hex": "hex", "null": "null"}
HEADERS_MAX = 100


async def form(asked: Asked) -> Shown:
    choices = choices_of(asked)
    async with reading_of(asked, choices) as reading:
        partitions = await reading.partitions()
    return {"topic": choices.topic, "partitions": partitions, "kinds": KINDS}


def content_of(name: str, text: str, kind: str) -> bytes | None:
    """The bytes that a field stands for. Browsers end lines with two signs, Kafka's users with
    one."""
    text = text.replace("\r\n", "\n")
    match kind:
        case "null":
            if text.strip():
                raise PageFault(400, f"The {name} is to be null, and has a text: clear one.")
            return None
        case "hex":
            try:
                return bytes.fromhex(text.removeprefix("0x"))
            except ValueError:
                raise PageFault(
                    400, f"The {name} is no hex: write pairs of 0-9 and a-f, as 00 ff."
                ) from None
        case "json":
            try:
                json.loads(text)
            except (ValueError, RecursionError) as fault:
                raise PageFault(400, f"The {name} is no JSON: {fault}.") from None
        case "text":
            pass
        case _:
            raise PageFault(400, f"The {name} can be {', '.join(KINDS)}, not '{kind[:20]}'.")
    return text.encode()


def headers_of(text: str) -> list[tuple[str, bytes]]:
    """One of each line: its name, a colon, its value."""
    headers = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise PageFault(400, f"Line {number} of the headers is not 'name: value'.")
        headers.append((name.strip(), value.strip().encode()))
    if len(headers) > HEADERS_MAX:
        raise PageFault(400, f"A record may have {HEADERS_MAX} headers here, not {len(headers)}.")
    return headers


async def sending(asked: Asked) -> Plan:
    topic = asked.path["topic"]
    key_text = asked.form.get("key", "")
    key = content_of("key", key_text, asked.form.get("key_kind", "text")) if key_text else None
    value = content_of("value", asked.form.get("value", ""), asked.form.get("value_kind", "text"))
    headers = headers_of(asked.form.get("headers", ""))
    word = asked.form.get("partition", "").strip()
    async with reading_of(asked, choices_of(asked)) as reading:
        known = await reading.partitions()
    partition = partitions_of(word, known)[0] if word else None
    size = len(key or b"") + len(value or b"")

    async def act() -> str:
        settings = _producer_settings(asked)
        async with Producer(settings) as producer:
            sending = await producer.send(topic, value, key, headers, partition)
            sent = await sending
        return f"Sent {size} bytes to partition {sent.partition}, offset {sent.offset}."

    return Plan(
        title=f"Send a record to {topic}",
        sentences=("The record is appended, and every reader of the topic will see it.",),
        act=act,
        after=topic_path(topic, "records"),
        command=command(asked, "console-producer", "--topic", topic),
        details={"size_bytes": str(size), "partition": word or "by key"},
    )


def _producer_settings(asked: Asked) -> dict[str, Any]:
    known = {k: v for k, v in asked.link.settings.items() if k in ProducerConfig.rows}
    return {**known, "acks": "all", "delivery.timeout.ms": "20000", "request.timeout.ms": "10000",
            "max.block.ms": "15000", "max.request.size": str(4 << 20)}  # fmt: skip
