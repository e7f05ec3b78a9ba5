"""`moldau topics`: create, list, describe, alter and delete topics, as kafka-topics.sh does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.command_clients import ZOOKEEPER, open_admin
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.tool import (
    BOOTSTRAP,
    COMMAND_CONFIG,
    JSON,
    NOTHING_IS_ASKED,
    Tool,
    actions_of,
    run_tool,
)
from moldau.cli.topics.topic_tables import Described

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin

ACTIONS = ("list", "describe", "create", "alter", "delete")
ONLY_WITH = {
    "config": ("create",),
    "partitions": ("create", "alter"),
    "replication-factor": ("create",),
    "replica-assignment": ("create", "alter"),
    "if-exists": ("alter", "delete", "describe"),
    "if-not-exists": ("create",),
    "topics-with-overrides": ("describe",),
    "under-replicated-partitions": ("describe",),
    "unavailable-partitions": ("describe",),
    "under-min-isr-partitions": ("describe",),
    "at-min-isr-partitions": ("describe",),
    "exclude-internal": ("list", "describe"),
    "topic-id": ("describe",),
}
NEEDS = {"create": ("topic",), "alter": ("topic", "partitions"), "delete": ("topic",)}
REPLICATION_FACTOR_MAX = 32767
COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_')"
    " could collide. To avoid issues it is best to use either, but not both."
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    chosen = [action for action in ACTIONS if given.has(action)]
    if len(chosen) != 1:
        raise UsageFault(
            "Command must include exactly one action: --list, --describe, --create, --alter or"
            " --delete"
        )
    action = chosen[0]
    for flag, actions in ONLY_WITH.items():
        if given.has(flag) and action not in actions:
            raise UsageFault(f'Option "[{action}]" can\'t be used with option "[{flag}]"')
    for key in NEEDS.get(action, ()):
        if not given.has(key):
            raise UsageFault(f'Missing required argument "[{key}]"')
    with open_admin(given, out, missing="--bootstrap-server must be specified") as admin:
        DO[action](admin, given, out)


def create(admin: Admin, given: Given, out: Output) -> None:
    from moldau.client.admin.admin_results import NewTopic
    from moldau.client.shared.client_errors import KafkaError

    name = given.text("topic")
    configs = configs_of(given.texts("config"))
    if "." in name or "_" in name:
        out.warn(COLLISION)
    replication_factor = given.maybe_number("replication-factor")
    if replication_factor is not None and not 1 <= replication_factor <= REPLICATION_FACTOR_MAX:
        limit = f"1 and {REPLICATION_FACTOR_MAX} inclusive"
        raise CommandFault(f"The replication factor must be between {limit}")
    partitions = given.maybe_number("partitions")
    if partitions is not None and partitions < 1:
        raise CommandFault("The partitions must be greater than 0")
    topic = NewTopic(name, partitions or -1, replication_factor or -1, configs)
    if given.has("replica-assignment"):
        assignments = dict(enumerate(assignment_of(given.text("replica-assignment"))))
        topic = NewTopic(name, configs=configs, assignments=assignments)
    result = admin.create_topics([topic], raise_errors=False).outcomes[name]
    if isinstance(result, KafkaError):
        if result.code.name == "TOPIC_ALREADY_EXISTS" and given.has("if-not-exists"):
            if out.is_json:
                out.json({"created": []})
            return
        raise result
    if out.is_json:
        out.json({"created": [name]})
    else:
        out.line(f"Created topic {name}.")


def configs_of(texts: list[str]) -> dict[str, str]:
    configs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise CommandFault(
                "requirement failed: Invalid topic config: all configs to be added must be in the"
                ' format "key=val".'
            )
        configs[key.strip()] = value.strip()
    return configs


def assignment_of(text: str) -> list[list[int]]:
    """`0:1,1:0` is the brokers of each partition."""
    rows = []
    for number, row in enumerate(text.split(",")):
        try:
            brokers = [int(each) for each in row.split(":")]
        except ValueError:
            raise CommandFault(f'For input string: "{row}": broker ids are numbers') from None
        if len(set(brokers)) < len(brokers):
            twice = ",".join(str(each) for each in sorted(set(brokers)) if brokers.count(each) > 1)
            raise CommandFault(
                f"Partition replica lists may not contain duplicate entries: {twice}"
            )
        rows.append(brokers)
        if len(brokers) != len(rows[0]):
            raise CommandFault(f"Partition {number} has different replication factor: {brokers}")
    return rows


def alter(admin: Admin, given: Given, out: Output) -> None:
    from moldau.client.admin.admin_results import NewPartitions

    total = given.number("partitions")
    names = matching(admin, given)
    wanted: dict[str, int | NewPartitions] = dict.fromkeys(names, total)
    if names and given.has("replica-assignment"):
        rows = assignment_of(given.text("replica-assignment"))
        for name, topic in admin.describe_topics(names).check().items():
            wanted[name] = NewPartitions(total, rows[len(topic.partitions) :])
    if wanted:
        admin.create_partitions(wanted).check()
    if out.is_json:
        out.json({"altered": names, "partitions": total})


def delete(admin: Admin, given: Given, out: Output) -> None:
    names = matching(admin, given)
    if names:
        admin.delete_topics(names).check()
    if out.is_json:
        out.json({"deleted": names})


def list_names(admin: Admin, given: Given, out: Output) -> None:
    names = matching(admin, given, must_exist=False)
    if given.has("json"):
        out.json(names)
    else:
        out.line("\n".join(names))


def matching(admin: Admin, given: Given, *, must_exist: bool = True) -> list[str]:
    """Topics by name or pattern; the pattern must fit the whole name."""
    topics = admin.list_topics(include_internal=not given.has("exclude-internal"))
    pattern = given.maybe_text("topic")
    if pattern is None:
        return sorted(topics)
    found = sorted(name for name in topics if topic_pattern(pattern).fullmatch(name))
    if not found and must_exist and pattern and not given.has("if-exists"):
        raise CommandFault(f"Topic '{pattern}' does not exist as expected")
    return found


def topic_pattern(text: str) -> re.Pattern[str]:
    """Commas separate alternatives, as in Kafka's own filters."""
    try:
        return re.compile(text.strip("\"' ").replace(",", "|").replace(" ", ""))
    except re.error as fault:
        raise CommandFault(f"{text} is an invalid regex: {fault}") from None


def describe(admin: Admin, given: Given, out: Output) -> None:
    from moldau.client.admin.admin_results import ConfigResource

    names = with_id(admin, given) if given.has("topic-id") else matching(admin, given)
    if not names:
        if out.is_json:
            out.json([])
        return
    topics = admin.describe_topics(names).check()
    resources = [ConfigResource.topic(name) for name in names]
    configs = admin.describe_configs(resources, include_synonyms=True).check()
    alive = {node.id for node in admin.describe_cluster().nodes}
    moving = reassignments(admin)
    shown = []
    for name, topic in topics.items():
        entries = list(configs[ConfigResource.topic(name)].values())
        description = Described(topic, entries, moving, alive, given)
        if given.has("json"):
            shown.append(description.as_json())
        elif out.is_terminal:
            description.print_table(out)
        else:
            description.print_plain(out)
    if given.has("json"):
        out.json(shown)


def with_id(admin: Admin, given: Given) -> list[str]:
    from moldau.model.names import uuid_text

    wanted = given.text("topic-id")
    topics = admin.list_topics(include_internal=True).values()
    names = [topic.name for topic in topics if uuid_text(topic.topic_id) == wanted]
    if not names and not given.has("if-exists"):
        raise CommandFault(f"TopicId '{wanted}' does not exist as expected")
    return names


def reassignments(admin: Admin) -> dict[Any, Any]:
    from moldau.client.shared.client_errors import (
        AuthorizationError,
        DisconnectError,
        UnsupportedVersionError,
    )

    try:
        return dict(admin.list_partition_reassignments())
    except (UnsupportedVersionError, AuthorizationError, DisconnectError):
        return {}


DO = {"create": create, "list": list_names, "describe": describe, "alter": alter, "delete": delete}

TOOL = Tool(
    name="topics",
    does="Creates, lists, describes, alters and deletes topics.",
    flags=(
        BOOTSTRAP,
        Flag("--create", "Make a topic; records are written to and read from topics."),
        Flag("--list", "List the names of all topics, or of those that fit --topic."),
        Flag("--describe", "Show partitions, leaders, replicas and settings."),
        Flag("--alter", "Give a topic more partitions."),
        Flag("--delete", "Delete topics with all their records; that cannot be undone."),
        Flag("--topic", "A topic; a pattern too, except with --create.", takes="NAME"),
        Flag(
            "--partitions",
            "How many partitions; with --alter the new total.",
            takes="N",
            kind=integer,
        ),
        Flag(
            "--replication-factor",
            "On how many brokers each partition is kept; what the broker's setting says otherwise.",
            takes="N",
            kind=integer,
        ),
        Flag(
            "--config",
            "A setting of the new topic, as retention.ms=86400000.",
            takes="KEY=VALUE",
            repeats=True,
        ),
        Flag("--replica-assignment", "Brokers of each partition, as 0:1,1:2.", takes="LIST"),
        Flag("--if-not-exists", "With --create: no failure if the topic exists."),
        Flag("--if-exists", "With --alter, --delete, --describe: no failure if it does not."),
        Flag("--topic-id", "With --describe: the topic of this id.", takes="ID"),
        Flag("--topics-with-overrides", "Only topics with settings of their own."),
        Flag("--under-replicated-partitions", "Only partitions with replicas out of sync."),
        Flag("--unavailable-partitions", "Only partitions without a living leader."),
        Flag("--under-min-isr-partitions", "Only partitions below min.insync.replicas."),
        Flag("--at-min-isr-partitions", "Only partitions at min.insync.replicas."),
        Flag("--exclude-internal", "Leave out the topics that brokers keep for themselves."),
        Flag(
            "--partition-size-limit-per-response",
            takes="N",
            kind=integer,
            hidden=True,
            no_effect="answers are read whole, however many partitions they describe",
        ),
        Flag("--force", hidden=True, no_effect=NOTHING_IS_ASKED),
        Flag(
            "--disable-rack-aware",
            hidden=True,
            no_effect="brokers place replicas, and spread them over racks if they have some; place"
            " them by hand with --replica-assignment",
        ),
        ZOOKEEPER,
        COMMAND_CONFIG,
        JSON,
    ),
    main=main,
    actions=actions_of(ACTIONS, only_with=ONLY_WITH, needs=NEEDS),
    examples=(
        "moldau topics --bootstrap-server localhost:9092 --create --topic orders --partitions 3",
        "moldau topics --bootstrap-server localhost:9092 --list",
        "moldau topics --bootstrap-server localhost:9092 --describe --topic orders",
        "moldau topics --bootstrap-server localhost:9092 --alter --topic orders --partitions 6",
        "moldau topics --bootstrap-server localhost:9092 --delete --topic 'test-.*'",
    ),
    fault_opening="Error while executing topic command : ",
    faults_on_stdout=True,
)
