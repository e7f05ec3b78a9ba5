"""`moldau console-consumer`: prints records as they arrive, as kafka-console-consumer.sh does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.command_clients import (
    bootstrap_of,
    client_faults,
    key_values,
    properties_file,
    reach,
)
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, integer, long
from moldau.cli.output import Output
from moldau.cli.tool import (
    BOOTSTRAP,
    COMMAND_CONFIG,
    JSON,
    ONE_CONSUMER,
    Tool,
    run_tool,
)
from moldau.model.names import TopicPartition

if TYPE_CHECKING:
    from moldau.cli.records.record_formatters import Formatter
    from moldau.client.consumer.blocking_consumer import Consumer

DEFAULT_FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
POLL_SECONDS = 1.0
GROUP_NUMBERS = 100_000
DEPRECATED = {
    "property": "formatter-property",
    "consumer-property": "command-property",
    "consumer.config": "command-config",
}


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    check(given)
    for old, new in DEPRECATED.items():
        if given.has(old):
            out.remark(f"Option --{old} is deprecated. Use --{new} instead.")
    from moldau.cli.records.record_formatters import formatter_of

    name = "JsonLines" if given.has("json") else given.text("formatter")
    formatter = formatter_of(name, format_properties(given))
    settings = settings_of(given, out)
    with client_faults():
        reach(str(settings["bootstrap.servers"]), {}, out)
        from moldau.client.consumer.blocking_consumer import Consumer

        with Consumer(settings) as consumer:
            printing = Printing(consumer, given, out, formatter)
            try:
                begin(consumer, given)
                printing.run()
            finally:
                printing.give_back()
                out.flush()
                out.remark(f"Processed a total of {printing.count} messages")


def check(given: Given) -> None:
    sources = [each for each in ("topic", "include") if given.has(each)]
    if len(sources) != 1:
        raise UsageFault("Exactly one of the following arguments is required: [topic], [include]")
    if given.has("partition") and not given.has("topic"):
        raise UsageFault("The topic is required when partition is specified.")
    if given.has("offset") and not given.has("partition"):
        raise UsageFault("The partition is required when offset is specified.")
    if given.has("from-beginning") and given.has("offset"):
        raise UsageFault("Options from-beginning and offset cannot be specified together.")
    offset = given.text("offset")
    if offset.lower() not in ("earliest", "latest") and not offset.isdigit():
        raise UsageFault(
            f"The provided offset value '{offset}' is incorrect. Valid values are 'earliest',"
            " 'latest', or a non-negative long."
        )


def format_properties(given: Given) -> dict[str, str]:
    properties: dict[str, str] = {}
    if given.has("formatter-config"):
        properties |= properties_file(given.text("formatter-config"))
    properties |= key_values(given.texts("property"))
    properties |= key_values(given.texts("formatter-property"))
    for flag in ("key-deserializer", "value-deserializer"):
        if given.has(flag):
            properties[flag.replace("-", ".")] = given.text(flag)
    return properties


def settings_of(given: Given, out: Output) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for key in ("consumer.config", "command-config"):
        if given.has(key):
            settings |= properties_file(given.text(key))
    settings |= key_values(given.texts("consumer-property"))
    settings |= key_values(given.texts("command-property"))
    chosen = settings.get("auto.offset.reset")
    if given.has("from-beginning") and chosen not in (None, "earliest", "smallest"):
        raise CommandFault(
            "Can't simultaneously specify --from-beginning and 'auto.offset.reset="
            f"{chosen}', please remove one option"
        )
    settings["auto.offset.reset"] = (
        "earliest" if given.has("from-beginning") else chosen or "latest"
    )
    groups = {text for text in (given.maybe_text("group"), settings.get("group.id")) if text}
    if len(groups) > 1:
        raise CommandFault(
            "The group ids provided in different places (directly using '--group', via"
            " '--command-property', or via '--command-config') do not match."
            f" Detected group ids: {', '.join(sorted(groups))}"
        )
    if groups:
        settings["group.id"] = groups.pop()
    else:
        import random

        settings["group.id"] = f"console-consumer-{random.randrange(GROUP_NUMBERS)}"
        # Nobody will read on in a group of that name.
        settings.setdefault("enable.auto.commit", "false")
    for key in ("key.deserializer", "value.deserializer"):
        settings.pop(key, None)  # the formatter turns bytes into text
    settings["isolation.level"] = given.text("isolation-level")
    settings["bootstrap.servers"] = bootstrap_of(given, out)
    settings.setdefault("client.id", "console-consumer")
    return settings


def begin(consumer: Consumer, given: Given) -> None:
    if given.has("include"):
        import re

        try:
            consumer.subscribe(pattern=given.text("include"))
        except re.error as fault:
            raise CommandFault(f"{given.text('include')} is an invalid regex: {fault}") from None
        return
    topic = given.text("topic")
    if not given.has("partition"):
        consumer.subscribe([topic])
        return
    partition = TopicPartition(topic, given.number("partition"))
    consumer.assign([partition])
    offset = given.text("offset").lower()
    if given.has("from-beginning") or offset == "earliest":
        consumer.seek_to_beginning([partition])
    elif offset == "latest":
        consumer.seek_to_end([partition])
    else:
        consumer.seek(partition, int(offset))


class Printing:
    """From polls to lines, until enough are printed or none comes for too long."""

    def __init__(self, consumer: Consumer, given: Given, out: Output, formatter: Formatter) -> None:
        self.consumer = consumer
        self.out = out
        self.formatter = formatter
        self.count_max = given.maybe_number("max-messages")
        self.timeout_ms = given.maybe_number("timeout-ms")
        self.skips_errors = given.has("skip-message-on-error")
        self.count = 0
        self.unread: dict[TopicPartition, int] = {}

    def run(self) -> None:
        last = time.monotonic()
        limit = None if self.timeout_ms is None or self.timeout_ms < 0 else self.timeout_ms / 1000
        while self.count_max is None or self.count_max < 0 or self.count < self.count_max:
            left = (
                POLL_SECONDS
                if limit is None
                else min(POLL_SECONDS, last + limit - time.monotonic())
            )
            records = self.consumer.poll(max(left, 0.0))
            if records:
                self.print(records)
                last = time.monotonic()
            elif limit is not None and time.monotonic() - last >= limit:
                self.out.flush()
                self.out.remark(
                    "ERROR Error processing message, terminating consumer process:"
                    f" TimeoutException: no message within {self.timeout_ms} ms"
                )
                return

    def print(self, records: Any) -> None:
        pieces, done = [], 0
        # Until they are printed, whatever comes in between.
        self.unread = {partition: some[0].offset for partition, some in records.items()}
        for record in records:
            if self.count_max is not None and 0 <= self.count_max <= self.count:
                break
            done += 1
            try:
                pieces.append(self.formatter.format(record))
            except (ValueError, LookupError, TypeError, AttributeError) as fault:
                if not self.skips_errors:
                    self.write(pieces, records[done:])
                    raise CommandFault(
                        f"Error processing message at {record.topic_partition} offset"
                        f" {record.offset}, terminating consumer process: {fault}"
                    ) from None
            self.count += 1
        self.write(pieces, records[done:])

    def write(self, pieces: list[bytes], left: Any) -> None:
        self.out.bytes(b"".join(pieces))
        self.out.flush()
        self.unread.clear()
        for record in left:
            self.unread.setdefault(record.topic_partition, record.offset)

    def give_back(self) -> None:
        """What was fetched and not printed must not be committed."""
        from moldau.client.shared.client_errors import KafkaError

        for partition, offset in self.unread.items():
            try:
                self.consumer.seek(partition, offset)
            except KafkaError:
                continue  # given to another member meanwhile


TOOL = Tool(
    name="console-consumer",
    does="Prints the records of a topic as they arrive. Ctrl-C ends it.",
    flags=(
        BOOTSTRAP,
        Flag("--topic", "The topic whose records are printed.", takes="NAME"),
        Flag("--include --whitelist", "A pattern of topics instead.", takes="REGEX"),
        Flag("--from-beginning", "Start at the first record if the group has no offset yet."),
        Flag("--partition", "Only the records of this partition.", takes="N", kind=integer),
        Flag(
            "--offset",
            "With --partition: where to start: a number, earliest or latest.",
            takes="OFFSET",
            default="latest",
        ),
        Flag("--max-messages", "End after so many records.", takes="N", kind=integer),
        Flag("--timeout-ms", "End when none comes for so long.", takes="MS", kind=long),
        Flag("--group", "Read as a member of this group.", takes="NAME"),
        Flag(
            "--isolation-level",
            "Whether records of open and aborted transactions are shown.",
            takes="LEVEL",
            one_of=("read_uncommitted", "read_committed"),
            default="read_uncommitted",
        ),
        Flag(
            "--formatter-property",
            "How records are printed: print.key=true, print.timestamp=, print.offset=,"
            " print.partition=, print.epoch=, print.headers=, print.value=, key.separator=,"
            " line.separator=, headers.separator=, null.literal=, key.deserializer=,"
            " value.deserializer=, header.deserializer=.",
            takes="KEY=VALUE",
            repeats=True,
        ),
        Flag(
            "--formatter",
            "A formatter by its Java name (OffsetsMessageFormatter,"
            " TransactionLogMessageFormatter...), or a Python class with format(record).",
            takes="CLASS",
            default=DEFAULT_FORMATTER,
        ),
        Flag("--formatter-config", "Properties of the formatter, in a file.", takes="FILE"),
        Flag("--key-deserializer", "How keys are read, as StringDeserializer.", takes="CLASS"),
        Flag("--value-deserializer", "How values are read, as LongDeserializer.", takes="CLASS"),
        Flag("--skip-message-on-error", "Pass over what cannot be printed."),
        Flag(
            "--command-property",
            "A setting of the consumer, as fetch.max.wait.ms=100.",
            takes="KEY=VALUE",
            repeats=True,
        ),
        Flag("--property", takes="KEY=VALUE", repeats=True, hidden=True),
        Flag("--consumer-property", takes="KEY=VALUE", repeats=True, hidden=True),
        Flag("--consumer.config", takes="FILE", hidden=True),
        Flag("--new-consumer", hidden=True, no_effect=ONE_CONSUMER),
        Flag(
            "--enable-systest-events",
            hidden=True,
            no_effect="those lines are for the system tests of Apache Kafka",
        ),
        Flag("--zookeeper", takes="HOST:PORT", hidden=True),
        COMMAND_CONFIG,
        JSON._replace(help="Print each record as a line of JSON."),
    ),
    main=main,
    answers_in_lines=True,
    examples=(
        "moldau console-consumer --bootstrap-server localhost:9092 --topic orders --from-beginning",
        "moldau console-consumer --bootstrap-server localhost:9092 --topic orders --partition 0"
        " --offset 3350 --max-messages 1",
        "moldau console-consumer --bootstrap-server localhost:9092 --topic orders"
        " --formatter-property print.key=true --formatter-property print.timestamp=true",
        "moldau console-consumer --bootstrap-server localhost:9092 --topic __consumer_offsets"
        " --from-beginning --formatter 'kafka.coordinator.group.GroupMetadataManager"
        "$OffsetsMessageFormatter'",
    ),
)
