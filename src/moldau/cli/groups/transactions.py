"""`moldau transactions`: look at transactions and end hanging ones, as kafka-transactions.sh."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.cli.answers import place
from moldau.cli.answers import rows as as_data
from moldau.cli.command_clients import java_name, open_admin
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, integer, long
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool
from moldau.model.names import TopicPartition

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin
    from moldau.client.admin.hanging_transactions import Suspect

LIST = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
DESCRIBE = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
PRODUCERS = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
HANGING = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)
MINUTES = 15
MINUTE_MS = 60_000


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def list_all(given: Given, out: Output) -> None:
    least_ms = given.number("duration-filter")
    with open_admin(given, out) as admin:
        found = admin.list_transactions(
            duration=None if least_ms < 0 else least_ms / 1000,
            id_pattern=given.maybe_text("transactional-id-pattern"),
        )
    rows = [
        (each.transactional_id, coordinator, each.producer_id, each.state)
        for coordinator, listed in found.items()
        for each in listed
    ]
    show(given, out, LIST, rows)


def describe(given: Given, out: Output) -> None:
    from moldau.client.shared.client_errors import KafkaError

    name = given.text("transactional-id")
    with open_admin(given, out) as admin:
        found = admin.describe_transactions([name], raise_errors=False).outcomes[name]
    if isinstance(found, KafkaError):
        raise CommandFault(
            f"Failed to describe transaction state of transactional-id `{name}`: {found}",
            java=java_name(found),
        )
    start = found.transaction_start_time_ms
    is_open = start >= 0
    row = (
        found.coordinator_id,
        name,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.transaction_timeout_ms,
        start if is_open else "None",
        now_ms() - start if is_open else "None",
        ",".join(str(each) for each in sorted(found.partitions)),
    )
    show(given, out, DESCRIBE, [row])


def describe_producers(given: Given, out: Output) -> None:
    partition = partition_of(given)
    with open_admin(given, out) as admin:
        broker = given.maybe_number("broker-id")
        found = admin.describe_producers([partition], broker_id=broker).check()[partition]
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            "None" if each.transaction_start_offset < 0 else each.transaction_start_offset,
        )
        for each in found
    ]
    show(given, out, PRODUCERS, rows)


def find_hanging(given: Given, out: Output) -> None:
    if not given.has("topic") and not given.has("broker-id"):
        raise UsageFault(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope"
            " of the search"
        )
    with open_admin(given, out) as admin:
        partitions = scope_of(admin, given)
        rows = []
        for partition, producer in hanging_in(admin, given, partitions):
            minutes = (now_ms() - producer.last_timestamp) // MINUTE_MS
            row = (
                partition.topic,
                partition.partition,
                producer.producer_id,
                producer.producer_epoch,
                producer.coordinator_epoch,
                producer.transaction_start_offset,
                producer.last_timestamp,
                minutes,
            )
            rows.append(row)
    show(given, out, HANGING, rows)


def scope_of(admin: Admin, given: Given) -> list[TopicPartition]:
    """The partitions to look at: one, those of a topic, or those on a broker."""
    if given.has("topic") and given.has("partition"):
        return [partition_of(given)]
    names = (
        [given.text("topic")]
        if given.has("topic")
        else list(admin.list_topics(include_internal=True))
    )
    broker = given.maybe_number("broker-id")
    return [
        TopicPartition(name, row.partition)
        for name, topic in admin.describe_topics(names).check().items()
        for row in topic.partitions
        if broker is None or broker in row.replicas
    ]


def hanging_in(admin: Admin, given: Given, partitions: list[TopicPartition]) -> list[Suspect]:
    """Open in a partition for too long, while no coordinator has them open there."""
    from moldau.client.admin.hanging_transactions import hanging, names_of, suspects

    described = admin.describe_producers(
        partitions, broker_id=given.maybe_number("broker-id"), raise_errors=False
    ).outcomes
    longest_ms = given.number("max-transaction-timeout") * MINUTE_MS
    found = suspects(described, now_ms(), longest_ms)
    if not found:
        return []
    names = names_of(
        admin.list_transactions(producer_ids={each.producer.producer_id for each in found})
    )
    states = (
        admin.describe_transactions(names.values(), raise_errors=False).outcomes if names else {}
    )
    return hanging(found, names, states)


def abort(given: Given, out: Output) -> None:
    partition = partition_of(given)
    with open_admin(given, out) as admin:
        if given.has("start-offset"):
            start = given.number("start-offset")
            found = admin.describe_producers([partition]).check()[partition]
            matching = [each for each in found if each.transaction_start_offset == start]
            if not matching:
                raise CommandFault(
                    f"Could not find any open transactions starting at offset {start} on partition"
                    f" {partition}"
                )
            producer_id, epoch = matching[0].producer_id, matching[0].producer_epoch
            coordinator_epoch = matching[0].coordinator_epoch
        else:
            for key in ("producer-id", "producer-epoch", "coordinator-epoch"):
                if not given.has(key):
                    raise UsageFault(
                        "The transaction to abort must be identified either with --start-offset"
                        " or with --producer-id, --producer-epoch, and --coordinator-epoch"
                    )
            producer_id, epoch = given.number("producer-id"), given.number("producer-epoch")
            coordinator_epoch = given.number("coordinator-epoch")
        # A transaction that never got a marker has no coordinator's epoch yet.
        admin.abort_transaction(partition, producer_id, epoch, max(coordinator_epoch, 0))
    if out.is_json:
        aborted = {"producerId": producer_id, "producerEpoch": epoch}
        out.json({"aborted": {**place(partition), **aborted}})


def force_terminate(given: Given, out: Output) -> None:
    with open_admin(given, out) as admin:
        admin.force_terminate_transaction(given.text("transactionalId"))
    if out.is_json:
        out.json({"terminated": given.text("transactionalId")})


def partition_of(given: Given) -> TopicPartition:
    if not given.has("topic") or not given.has("partition"):
        raise UsageFault("argument --topic and --partition are required")
    return TopicPartition(given.text("topic"), given.number("partition"))


def now_ms() -> int:
    return int(time.time() * 1000)


def show(
    given: Given, out: Output, header: Sequence[str], rows: Sequence[Sequence[object]]
) -> None:
    if given.has("json"):
        shown = ([None if cell == "None" else cell for cell in row] for row in rows)
        out.json(as_data(header, shown))
        return
    if out.is_terminal:
        out.table(header, rows)
        return
    texts = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(header))]
    for row in texts:
        out.line("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))


def nothing(given: Given, out: Output) -> None:
    """The sub-commands do the work."""


TOPIC = Flag("--topic", "The topic of the partition.", takes="NAME")
PARTITION = Flag("--partition", "The number of the partition.", takes="N", kind=integer)
BROKER = Flag("--broker-id", "Ask the replica on this broker.", takes="ID", kind=integer)
ID = Flag("--transactional-id", "The transactional id.", takes="ID", required=True)
LIST_FLAGS = (
    Flag(
        "--duration-filter",
        "Only those open for longer, in milliseconds.",
        takes="MS",
        kind=long,
        default=-1,
    ),
    Flag("--transactional-id-pattern", "Only ids that fit this pattern.", takes="REGEX"),
)
ABORT_FLAGS = (
    TOPIC,
    PARTITION,
    Flag("--start-offset", "Where the transaction starts.", takes="OFFSET", kind=long),
    Flag("--producer-id", "The producer, instead of --start-offset.", takes="ID", kind=long),
    Flag("--producer-epoch", "The producer's epoch.", takes="N", kind=integer),
    Flag("--coordinator-epoch", "The epoch of the coordinator.", takes="N", kind=integer),
)
HANGING_FLAGS = (
    TOPIC,
    PARTITION,
    BROKER,
    Flag(
        "--max-transaction-timeout",
        "Minutes after which an open transaction is suspect.",
        takes="MINUTES",
        kind=integer,
        default=MINUTES,
    ),
)
TOOL = Tool(
    name="transactions",
    does="Shows the transactions of a cluster, and finds and aborts those that hang.",
    flags=(BOOTSTRAP, COMMAND_CONFIG, JSON),
    main=nothing,
    commands=(
        Tool(
            "transactions list",
            "Lists the transactional ids that the cluster knows, with their state.",
            LIST_FLAGS,
            list_all,
            examples=("moldau transactions --bootstrap-server localhost:9092 list",),
        ),
        Tool(
            "transactions describe",
            "Shows one transaction: its producer, its state, how long it has been open, and"
            " its partitions.",
            (ID,),
            describe,
            examples=(
                "moldau transactions --bootstrap-server localhost:9092 describe"
                " --transactional-id tx1",
            ),
        ),
        Tool(
            "transactions describe-producers",
            "Shows the producers that wrote to a partition, and which have a transaction open"
            " in it.",
            (TOPIC, PARTITION, BROKER),
            describe_producers,
            examples=(
                "moldau transactions --bootstrap-server localhost:9092 describe-producers"
                " --topic orders --partition 0",
            ),
        ),
        Tool(
            "transactions find-hanging",
            "Finds transactions that stay open though nobody will end them; readers of"
            " committed records wait for them.",
            HANGING_FLAGS,
            find_hanging,
            examples=(
                "moldau transactions --bootstrap-server localhost:9092 find-hanging --topic orders",
            ),
        ),
        Tool(
            "transactions abort",
            "Aborts a hanging transaction in one partition, so that its readers go on.",
            ABORT_FLAGS,
            abort,
            examples=(
                "moldau transactions --bootstrap-server localhost:9092 abort --topic orders"
                " --partition 0 --start-offset 42",
            ),
        ),
        Tool(
            "transactions forceTerminateTransaction",
            "Ends whatever a transactional id has open, and shuts its producer out.",
            (Flag("--transactionalId", "The transactional id.", takes="ID", required=True),),
            force_terminate,
            examples=(
                "moldau transactions --bootstrap-server localhost:9092"
                " forceTerminateTransaction --transactionalId tx1",
            ),
        ),
    ),
    examples=(
        "moldau transactions --bootstrap-server localhost:9092 list",
        "moldau transactions --bootstrap-server localhost:9092 describe --transactional-id tx1",
        "moldau transactions --bootstrap-server localhost:9092 find-hanging --broker-id 0",
        "moldau transactions --bootstrap-server localhost:9092 abort --topic orders --partition 0"
        " --start-offset 42",
    ),
)
