"""`moldau cat`: the records of a topic in the short form of kcat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.command_clients import client_faults, reach
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.records.short_form import BROKER, CONFIG, SETTING, separated, settings_of
from moldau.cli.tool import JSON_LINES, Tool, run_tool
from moldau.model.names import TopicPartition

if TYPE_CHECKING:
    from moldau.client.consumer.blocking_consumer import Consumer

POLL_SECONDS = 0.5
GROUP_SESSION = {"auto.offset.reset": "earliest"}


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, separated(arguments, TOOL))


def main(given: Given, out: Output) -> None:
    if given.has("group") and (given.has("partition") or given.has("offset")):
        raise UsageFault("--group decides what is read: --partition and --offset go without it.")
    show = shown_by(given)
    settings = {"client.id": "moldau-cat", **settings_of(given)}
    if given.has("group"):
        settings = {**GROUP_SESSION, **settings, "group.id": given.text("group")}
    else:
        settings["enable.auto.commit"] = "false"
    with client_faults():
        reach(str(settings["bootstrap.servers"]), settings, out)
        from moldau.client.consumer.blocking_consumer import Consumer

        with Consumer(settings) as consumer:
            if given.has("group"):
                consumer.subscribe([given.text("topic")])
                ends = None
            else:
                ends = begin(consumer, given)
            Reading(consumer, given, out, show).run(ends)


def shown_by(given: Given) -> Callable[[Any], bytes]:
    from moldau.cli.records.record_format import format_of
    from moldau.cli.records.record_formatters import JsonLines

    if given.has("json"):
        return JsonLines({}).format
    null = given.text("null").encode()
    if given.has("format"):
        return format_of(given.text("format"), null)
    text = "%s" + given.text("delimiter")
    if given.has("key-delimiter"):
        text = "%k" + given.text("key-delimiter").replace("%", "%%") + text
    return format_of(text, null)


def begin(consumer: Consumer, given: Given) -> dict[TopicPartition, int]:
    """Go to where the reading begins; the answer is where the topic ends now."""
    topic = given.text("topic")
    known = [TopicPartition(topic, row.partition) for row in consumer.partitions_for(topic)]
    if not known:
        raise CommandFault(f"There is no topic {topic}")
    chosen: set[int] = set(given.value("partition") or ())
    partitions = [tp for tp in known if not chosen or tp.partition in chosen]
    missing = sorted(chosen - {tp.partition for tp in known})
    if missing:
        raise CommandFault(f"{topic} has no partition {missing[0]}: it has {len(known)}")
    consumer.assign(partitions)
    starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    for tp, offset in places(consumer, given.text("offset"), starts, ends).items():
        consumer.seek(tp, offset)
    return ends


def places(
    consumer: Consumer,
    text: str,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """beginning, end, 5 (that offset), -5 (the last five), s@1700000000000 (that time)."""
    if text in ("beginning", "earliest"):
        return starts
    if text in ("end", "latest"):
        return ends
    if text.startswith("s@") and text[2:].isdigit():
        found = consumer.offsets_for_times(dict.fromkeys(starts, int(text[2:])))
        return {tp: ends[tp] if at is None else at.offset for tp, at in found.items()}
    if not text.lstrip("-").isdigit():
        raise UsageFault(
            f"--offset must be beginning, end, a number, -N for the last N, or s@MS, not {text}"
        )
    number = int(text)
    if number < 0:
        return {tp: max(starts[tp], ends[tp] + number) for tp in starts}
    return {tp: min(max(starts[tp], number), ends[tp]) for tp in starts}


class Reading:
    def __init__(
        self, consumer: Consumer, given: Given, out: Output, show: Callable[[Any], bytes]
    ) -> None:
        self.consumer = consumer
        self.out = out
        self.show = show
        self.left = given.number("count") if given.has("count") else -1
        self.ends_at_the_end = given.has("exit")

    def run(self, ends: dict[TopicPartition, int] | None) -> None:
        """`ends` is where to stop with --exit; in a group it is asked when partitions are known."""
        while self.left:
            records = self.consumer.poll(POLL_SECONDS)
            if self.ends_at_the_end and ends is None and self.consumer.assignment():
                ends = self.consumer.end_offsets(self.consumer.assignment())
            self.print(records)
            if self.ends_at_the_end and ends is not None and self.is_at(ends):
                return

    def print(self, records: Iterable[Any]) -> None:
        pieces = []
        for record in records:
            if not self.left:
                # What was fetched and not printed must not be committed.
                self.consumer.seek(record.topic_partition, record.offset)
                break
            pieces.append(self.show(record))
            self.left -= 1
        self.out.bytes(b"".join(pieces))
        self.out.flush()

    def is_at(self, ends: dict[TopicPartition, int]) -> bool:
        return all(self.consumer.position(tp) >= end for tp, end in ends.items())


TOOL = Tool(
    name="cat",
    does="Prints the records of a topic, in the short form that kcat has made usual: from the first"
    " record on, and then what comes. Ctrl-C ends it.",
    flags=(
        BROKER,
        Flag("--topic -t", "The topic.", takes="NAME", required=True),
        Flag("--format -f", "How a record is printed; see below.", takes="FORMAT"),
        Flag("--count -c", "End after so many records.", takes="N", kind=integer),
        Flag("--exit -e", "End where the topic ended when the command began."),
        Flag(
            "--offset -o",
            "Where to begin: beginning, end, a number, -N for the last N of each partition, or"
            " s@MS for the first record of a time in milliseconds since 1970.",
            takes="OFFSET",
            default="beginning",
        ),
        Flag("--partition -p", "Only this one.", takes="N", kind=integer, repeats=True),
        Flag("--group -G", "Read as a member of this group, where it stands.", takes="NAME"),
        Flag("--key-delimiter -K", "Print the key and this before the value.", takes="TEXT"),
        Flag("--delimiter -D", "Print this after each record.", takes="TEXT", default="\\n"),
        Flag("--null -Z", "Print this for a key or value of null.", takes="TEXT", default=""),
        SETTING,
        CONFIG,
        JSON_LINES._replace(names="--json -J", help="Print each record as a line of JSON."),
    ),
    main=main,
    answers_in_lines=True,
    notes="A format is text with letters after a percent sign: %k the key, %v or %s the value, %K"
    " and %S their sizes in bytes (-1 for null), %t the topic, %p the partition, %o the offset, %T"
    " the timestamp, %h the headers, %R the value's size as four bytes, %% a percent sign. \\n,"
    " \\t, \\r, \\0 and \\x2c are what they are in C.",
    examples=(
        "moldau cat -t orders -e",
        "moldau cat -b localhost:9092 -t orders -f '%k %v\\n' -c 10 -e",
        "moldau cat -t orders -o -5 -e -f 'partition %p, offset %o: %v\\n'",
        "moldau cat -t orders -p 0 -J -e",
    ),
)
