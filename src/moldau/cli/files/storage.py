"""`moldau storage adopt`: serve what an Apache Kafka broker has left in its log directories."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.tool import JSON, Tool, run_tool
from moldau.model.names import NO_TOPIC_ID, uuid_text


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def adopt(given: Given, out: Output) -> None:
    from moldau.broker.kafka_adoption import adopt as adopt_directories
    from moldau.storage.storage_faults import StorageFault

    directories = [path for text in given.texts("log-dir") for path in text.split(",") if path]
    try:
        found = adopt_directories(directories)
    except StorageFault as fault:
        raise CommandFault(str(fault)) from fault
    if given.has("json"):
        topics = [
            {
                "topic": topic.name,
                "topicId": None if topic.topic_id == NO_TOPIC_ID else uuid_text(topic.topic_id),
                "partitions": len(topic.leader_epochs),
                "compacted": topic.is_compacted,
            }
            for topic in found.topics
        ]
        answer = {"nodeId": found.meta.node_id, "clusterId": found.meta.cluster_id}
        left_out = [{"what": name, "count": count} for name, count in found.others.items()]
        out.json({**answer, "topics": topics, "leftAlone": found.left_alone, "leftOut": left_out})
        return
    for topic in found.topics:
        count = len(topic.leader_epochs)
        out.line(f"Adopted topic {topic.name} with {count} partition{'s' if count > 1 else ''}.")
    for path in found.left_alone:
        out.line(f"Left alone {path}: it holds no partition of a topic.")
    if any(topic.configs is None for topic in found.topics):
        out.line(
            "The settings of these topics were kept in ZooKeeper: they compact if the cleaner has "
            "been at work on them, and keep all records otherwise. Set retention with configs."
        )
    for name, count in found.others.items():
        out.line(f"Not adopted, a broker on its own keeps none from there: {count} {name}.")
    out.line(
        f"Adopted {len(found.topics)} topics of cluster {found.meta.cluster_id}. Start the broker "
        f"with node.id={found.meta.node_id} and log.dirs={','.join(directories)}."
    )


def refuse(given: Given, out: Output) -> None:
    raise CommandFault("Name what to do: storage adopt --log-dir DIR")


TOOL = Tool(
    name="storage",
    does="Prepares log directories, as those that Apache Kafka has left.",
    flags=(),
    main=refuse,
    commands=(
        Tool(
            name="storage adopt",
            does="Registers the topics found in log directories that Apache Kafka wrote, so that a "
            "broker on its own serves them. Stop the broker that wrote them first.",
            flags=(
                Flag(
                    "--log-dir",
                    "A log directory; give the flag once for each, in the order of log.dirs.",
                    takes="DIR",
                    repeats=True,
                    required=True,
                ),
                JSON,
            ),
            main=adopt,
            examples=("moldau storage adopt --log-dir /var/lib/kafka",),
        ),
    ),
    examples=("moldau storage adopt --log-dir /var/lib/kafka",),
)
