"""`moldau reassign-partitions`: move partitions to other brokers, as kafka-reassign-partitions.sh.

A lone broker has nowhere to move anything: --generate, --verify and --list work there, and
--execute of a plan that changes nothing; anything else is for brokers that serve reassignments.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.clients import ZOOKEEPER, json_file, open_admin
from moldau.cli.coordinator_records import compact_json
from moldau.cli.faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, long
from moldau.cli.output import Output
from moldau.cli.reassignment_plans import (
    Plan,
    assign,
    assignment_json,
    plan_of,
    throttled_topics,
    topics_of,
)
from moldau.cli.replica_moves import moves_of, start_moves, states_of
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool
from moldau.model.names import TopicPartition

if TYPE_CHECKING:
    from moldau.client.admin import Admin

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
BROKER_THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
TOPIC_THROTTLES = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
THROTTLED = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the"
    " throttle is removed."
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    chosen = [action for action in ACTIONS if given.has(action)]
    if len(chosen) != 1:
        raise UsageFault(
            "Command must include exactly one action: --generate, --execute, --verify, --cancel,"
            " --list."
        )
    action = chosen[0]
    if action in ("execute", "verify", "cancel") and not given.has("reassignment-json-file"):
        raise UsageFault('Missing required argument "[reassignment-json-file]"')
    if action == "generate":
        for key in ("topics-to-move-json-file", "broker-list"):
            if not given.has(key):
                raise UsageFault(f'Missing required argument "[{key}]"')
    missing = "Please specify --bootstrap-server"
    with open_admin(given, out, missing=missing) as admin:
        DO[action](admin, given, out)


def generate(admin: Admin, given: Given, out: Output) -> None:
    names = topics_of(json_file(given.text("topics-to-move-json-file")))
    brokers = numbers_of(given.text("broker-list"))
    alive = {node.id for node in admin.describe_cluster().nodes}
    unknown = [broker for broker in brokers if broker not in alive]
    if unknown:
        raise CommandFault(f"Unknown broker id {unknown[0]}")
    current, proposed = {}, {}
    for name, topic in admin.describe_topics(names).check().items():
        factor = len(topic.partitions[0].replicas)
        if factor > len(brokers):
            raise CommandFault(
                f"Replication factor: {factor} larger than available brokers: {len(brokers)}"
            )
        fresh = assign(len(topic.partitions), factor, sorted(brokers), random.randrange)
        for row in topic.partitions:
            current[TopicPartition(name, row.partition)] = row.replicas
            proposed[TopicPartition(name, row.partition)] = fresh[row.partition]
    before = assignment_json(current, directories(admin, current))
    after = assignment_json(proposed, {})
    if given.has("json"):
        out.json({"current": before, "proposed": after})
        return
    out.line("Current partition replica assignment")
    out.line(compact_json(before))
    out.line()
    out.line("Proposed partition reassignment configuration")
    out.line(compact_json(after))


def directories(admin: Admin, partitions: Plan) -> dict[tuple[TopicPartition, int], str]:
    """Where each replica lies, as far as the brokers tell."""
    found = {}
    for broker, described in admin.describe_log_dirs().items():
        if isinstance(described, Exception):
            continue
        for path, directory in described.items():
            for tp in directory.replicas:
                if tp in partitions:
                    found[(tp, broker)] = path
    return found


def numbers_of(text: str) -> list[int]:
    try:
        numbers = [int(each) for each in text.split(",")]
    except ValueError:
        raise UsageFault(f"--broker-list takes broker ids, as 0,1,2, not {text}") from None
    if len(set(numbers)) < len(numbers):
        raise CommandFault(f"Broker list contains duplicate entries: {text}")
    return numbers


def execute(admin: Admin, given: Given, out: Output) -> None:
    from moldau.client.errors import UnsupportedVersionError

    content = json_file(given.text("reassignment-json-file"))
    wanted, moves = plan_of(content), moves_of(content)
    alive = {node.id for node in admin.describe_cluster().nodes}
    for replicas in wanted.values():
        for broker in replicas:
            if broker not in alive:
                raise CommandFault(f"Unknown broker id {broker}")
    under_way = moving(admin)
    if under_way and not given.has("additional"):
        raise CommandFault(
            "Cannot execute because there is an existing partition assignment. Use --additional to"
            " override this and create a new partition assignment in addition to the existing one."
        )
    current = current_of(admin, wanted)
    out.line("Current partition replica assignment\n")
    out.line(compact_json(assignment_json(current, directories(admin, current))))
    out.line("\nSave this to use as the --reassignment-json-file option during rollback")
    if given.number("throttle") >= 0:
        throttle(admin, given, out, wanted, current)
    if moves and given.number("replica-alter-log-dirs-throttle") >= 0:
        throttle_moves(admin, given, out, {replica.broker_id for replica in moves})
    try:
        factor_may_change = not given.has("disallow-replication-factor-change")
        results = admin.alter_partition_reassignments(
            wanted, allow_replication_factor_change=factor_may_change
        )
    except UnsupportedVersionError:
        if wanted != current:
            raise CommandFault(
                "the brokers do not serve reassignments: partitions can be moved in a cluster of"
                " several brokers only"
            ) from None
        results = dict.fromkeys(wanted)  # type: ignore[assignment]
    failed = {tp: error for tp, error in results.items() if isinstance(error, Exception)}
    if failed:
        lines = "\n".join(f"{tp}: {error}" for tp, error in sorted(failed.items()))
        raise CommandFault(f"Error reassigning partition(s):\n{lines}")
    plural = "s" if len(wanted) > 1 else ""
    names = ",".join(str(tp) for tp in sorted(wanted))
    out.line(f"Successfully started partition reassignment{plural} for {names}")
    start_moves(admin, moves, given.number("timeout"), out)


def current_of(admin: Admin, partitions: Plan) -> Plan:
    described = admin.describe_topics({tp.topic for tp in partitions}).check()
    rows = {
        TopicPartition(name, row.partition): row.replicas
        for name, topic in described.items()
        for row in topic.partitions
    }
    missing = [str(tp) for tp in partitions if tp not in rows]
    if missing:
        raise CommandFault(f"Topic {missing[0]} not found.")
    return {tp: rows[tp] for tp in partitions}


def moving(admin: Admin) -> dict[TopicPartition, Any]:
    from moldau.client.errors import UnsupportedVersionError

    try:
        return admin.list_partition_reassignments()
    except UnsupportedVersionError:
        return {}  # nothing can be moved there, so nothing is


def throttle(admin: Admin, given: Given, out: Output, wanted: Plan, current: Plan) -> None:
    from moldau.client.admin_results import ConfigResource

    rate = str(given.number("throttle"))
    out.line(THROTTLED)
    brokers = {broker for plan in (wanted, current) for row in plan.values() for broker in row}
    leaders, followers = BROKER_THROTTLES[:2]
    changes: dict[Any, dict[str, str | None]] = {
        ConfigResource.broker(broker): {leaders: rate, followers: rate} for broker in brokers
    }
    for topic, (leading, following) in throttled_topics(wanted, current).items():
        changes[ConfigResource.topic(topic)] = {
            TOPIC_THROTTLES[0]: leading,
            TOPIC_THROTTLES[1]: following,
        }
    admin.incremental_alter_configs(changes).check()
    out.line(f"The inter-broker throttle limit was set to {rate} B/s")


def throttle_moves(admin: Admin, given: Given, out: Output, brokers: set[int]) -> None:
    from moldau.client.admin_results import ConfigResource

    rate = str(given.number("replica-alter-log-dirs-throttle"))
    changes: dict[Any, dict[str, str | None]] = {
        ConfigResource.broker(broker): {BROKER_THROTTLES[2]: rate} for broker in brokers
    }
    admin.incremental_alter_configs(changes).check()
    out.line(f"The replica-alter-dir throttle limit was set to {rate} B/s")


def verify(admin: Admin, given: Given, out: Output) -> None:
    content = json_file(given.text("reassignment-json-file"))
    wanted, moves = plan_of(content), moves_of(content)
    under_way = moving(admin)
    current = current_of(admin, wanted)
    out.line("Status of partition reassignment:")
    for tp in sorted(wanted):
        if tp in under_way:
            out.line(f"Reassignment of partition {tp} is still in progress.")
        elif current[tp] == wanted[tp]:
            out.line(f"Reassignment of partition {tp} is completed.")
        else:
            out.line(
                f"There is no active reassignment of partition {tp}, but replica set is"
                f" {commas(current[tp])} rather than {commas(wanted[tp])}."
            )
    states = states_of(admin, moves) if moves else {}
    out.line("\n".join(states.values()))
    is_busy = any(tp in under_way for tp in wanted) or any(
        state.endswith("in progress.") for state in states.values()
    )
    if not is_busy and not given.has("preserve-throttles"):
        clear_throttles(admin, out, wanted)


def commas(numbers: Sequence[int]) -> str:
    return ",".join(str(number) for number in numbers)


def clear_throttles(admin: Admin, out: Output, partitions: Plan) -> None:
    from moldau.client.admin_results import ConfigResource

    brokers = sorted(node.id for node in admin.describe_cluster().nodes)
    topics = sorted({tp.topic for tp in partitions})
    out.line(
        f"Clearing broker-level throttles on broker{'s' * (len(brokers) > 1)} {commas(brokers)}"
    )
    out.line(f"Clearing topic-level throttles on topic{'s' * (len(topics) > 1)} {','.join(topics)}")
    nothing_broker: dict[str, str | None] = dict.fromkeys(BROKER_THROTTLES)
    nothing_topic: dict[str, str | None] = dict.fromkeys(TOPIC_THROTTLES)
    changes: dict[Any, dict[str, str | None]] = {
        ConfigResource.broker(broker): nothing_broker for broker in brokers
    }
    changes |= {ConfigResource.topic(topic): nothing_topic for topic in topics}
    admin.incremental_alter_configs(changes).check()


def cancel(admin: Admin, given: Given, out: Output) -> None:
    wanted = plan_of(json_file(given.text("reassignment-json-file")))
    under_way = [tp for tp in moving(admin) if tp in wanted]
    if not under_way:
        out.line("None of the specified partition reassignments are active.")
    else:
        results = admin.alter_partition_reassignments(dict.fromkeys(under_way))
        results.check()
        plural = "s" if len(under_way) > 1 else ""
        names = ",".join(str(tp) for tp in sorted(under_way))
        out.line(f"Successfully cancelled partition reassignment{plural} for: {names}")
    out.write("None of the specified partition moves are active.")
    if not given.has("preserve-throttles"):
        clear_throttles(admin, out, wanted)


def list_all(admin: Admin, given: Given, out: Output) -> None:
    under_way = moving(admin)
    if given.has("json"):
        out.json(
            [
                {
                    "partition": str(tp),
                    "replicas": change.replicas,
                    "adding": change.adding_replicas,
                    "removing": change.removing_replicas,
                }
                for tp, change in sorted(under_way.items())
            ]
        )
        return
    if not under_way:
        out.line("No partition reassignments found.")
        return
    out.line("Current partition reassignments:")
    for tp, change in sorted(under_way.items()):
        adding = f" adding: {commas(change.adding_replicas)}." if change.adding_replicas else ""
        gone = f" removing: {commas(change.removing_replicas)}." if change.removing_replicas else ""
        out.line(f"{tp}: replicas: {commas(change.replicas)}.{adding}{gone}")


DO = {
    "generate": generate,
    "execute": execute,
    "verify": verify,
    "cancel": cancel,
    "list": list_all,
}
TOOL = Tool(
    name="reassign-partitions",
    does="Plans and carries out moves of partitions between brokers.",
    flags=(
        BOOTSTRAP,
        Flag("--generate", "Propose a plan; nothing is moved."),
        Flag("--execute", "Carry out a plan."),
        Flag("--verify", "Say how far it is, and lift throttles when it is done."),
        Flag("--cancel", "Stop it."),
        Flag("--list", "List the moves that are under way."),
        Flag(
            "--topics-to-move-json-file",
            'For --generate: {"topics": [{"topic": "orders"}]}',
            "FILE",
        ),
        Flag("--broker-list", "For --generate: where to, as 0,1,2.", takes="LIST"),
        Flag(
            "--reassignment-json-file",
            'The plan: {"version": 1, "partitions": [{"topic": "orders", "partition": 0,'
            ' "replicas": [1, 2]}]}; with "log_dirs": [...] also where on each broker',
            takes="FILE",
        ),
        Flag("--throttle", "Bytes a second between brokers.", "BYTES", kind=long, default=-1),
        Flag(
            "--replica-alter-log-dirs-throttle", takes="BYTES", kind=long, default=-1, hidden=True
        ),
        Flag("--additional", "Even while others are under way."),
        Flag("--preserve-throttles", "Leave throttles as they are."),
        Flag("--disallow-replication-factor-change", "Refuse plans that change it."),
        Flag("--disable-rack-aware", hidden=True),
        Flag("--timeout", takes="MS", kind=long, default=10_000, hidden=True),
        Flag("--bootstrap-controller", takes="HOST:PORT", hidden=True),
        ZOOKEEPER,
        COMMAND_CONFIG,
        JSON,
    ),
    main=main,
    fault_opening="Error: ",
    faults_on_stdout=True,
    examples=(
        "moldau reassign-partitions --bootstrap-server localhost:9092 --generate"
        " --topics-to-move-json-file topics.json --broker-list 1,2",
        "moldau reassign-partitions --bootstrap-server localhost:9092 --execute"
        " --reassignment-json-file plan.json",
        "moldau reassign-partitions --bootstrap-server localhost:9092 --verify"
        " --reassignment-json-file plan.json",
    ),
)
