"""`moldau reassign-partitions`: move partitions to other brokers, as kafka-reassign-partitions.sh.

A lone broker has nowhere to move anything: --generate, --verify and --list work there, and
--execute of a plan that changes nothing; anything else is for brokers that serve reassignments.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.answers import place
from moldau.cli.command_clients import ZOOKEEPER, json_file, open_admin
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, long
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, actions_of, run_tool
from moldau.cli.topics.reassignment_plans import (
    Plan,
    assignment_json,
    plan_of,
    topics_of,
)
from moldau.cli.topics.reassignment_throttles import (
    clear_throttles,
    commas,
    throttle,
    throttle_moves,
)
from moldau.cli.topics.replica_moves import moves_of, start_moves, states_of, way_back
from moldau.client.serialization.coordinator_records import compact_json
from moldau.controller.rules.replica_placement import Start, place_by_rack
from moldau.controller.rules.replica_placement import place as place_replicas
from moldau.model.names import TopicPartition

if TYPE_CHECKING:
    from moldau.client.admin.admin_results import TopicPartitionReplica
    from moldau.client.admin.blocking_admin import Admin
    from moldau.client.network.network_client import Node

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
ANYWHERE = ("bootstrap-server", "zookeeper", "command-config", "json")
NEEDED = {
    **dict.fromkeys(("execute", "verify", "cancel"), ("reassignment-json-file",)),
    "generate": ("topics-to-move-json-file", "broker-list"),
}
PERMITTED = {
    "generate": ("topics-to-move-json-file", "broker-list", "disable-rack-aware"),
    "execute": (
        "reassignment-json-file",
        "additional",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
    ),
    "verify": ("reassignment-json-file", "preserve-throttles"),
    "cancel": (
        "reassignment-json-file",
        "preserve-throttles",
        "timeout",
        "bootstrap-controller",
    ),
    "list": ("bootstrap-controller",),
}
"""Flags that mean something to each action; the others are refused with it, as by Kafka's tool."""
ONLY_WITH = {
    flag: tuple(action for action in ACTIONS if flag in PERMITTED[action])
    for flags in PERMITTED.values()
    for flag in flags
}


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
    for key in NEEDED.get(action, ()):
        if not given.has(key):
            raise UsageFault(f'Missing required argument "[{key}]"')
    for key in given.given_keys():
        if key not in (action, *ANYWHERE, *PERMITTED[action]):
            raise UsageFault(f'Option "[{key}]" can\'t be used with action "[{action}]"')
    missing = "Please specify --bootstrap-server"
    with open_admin(given, out, missing=missing) as admin:
        DO[action](admin, given, out)


def generate(admin: Admin, given: Given, out: Output) -> None:
    names = topics_of(json_file(given.text("topics-to-move-json-file")))
    brokers = numbers_of(given.text("broker-list"))
    nodes = {node.id: node for node in admin.describe_cluster().nodes}
    unknown = [broker for broker in brokers if broker not in nodes]
    if unknown:
        raise CommandFault(f"Unknown broker id {unknown[0]}")
    racks = {} if given.has("disable-rack-aware") else racks_of([nodes[each] for each in brokers])
    current, proposed = {}, {}
    for name, topic in admin.describe_topics(names).check().items():
        factor = len(topic.partitions[0].replicas)
        if factor > len(brokers):
            raise CommandFault(
                f"Replication factor: {factor} larger than available brokers: {len(brokers)}"
            )
        start = Start(random.randrange(len(brokers)), random.randrange(len(brokers)))
        if racks:
            fresh = place_by_rack(racks, len(topic.partitions), factor, start)
        else:
            fresh = place_replicas(sorted(brokers), len(topic.partitions), factor, start)
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


def racks_of(nodes: Sequence[Node]) -> dict[int, str]:
    """The rack of each broker; nothing if none has one."""
    racks = {node.id: node.rack for node in nodes if node.rack is not None}
    if racks and len(racks) < len(nodes):
        raise CommandFault(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to"
            " make replica assignment without rack information."
        )
    return racks


def directories(admin: Admin, partitions: Plan) -> dict[tuple[TopicPartition, int], str]:
    """Where each replica lies, as far as the brokers tell."""
    found = {}
    for broker, described in admin.describe_log_dirs(raise_errors=False).outcomes.items():
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
    from moldau.client.admin.admin_results import Results
    from moldau.client.shared.client_errors import UnsupportedVersionError

    content = json_file(given.text("reassignment-json-file"))
    wanted, moves = plan_of(content), moves_of(content)
    check_plan(admin, given, wanted)
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
            wanted, allow_replication_factor_change=factor_may_change, raise_errors=False
        )
    except UnsupportedVersionError:
        if wanted != current:
            raise CommandFault(
                "the brokers do not serve reassignments: partitions can be moved in a cluster of"
                " several brokers only"
            ) from None
        results = Results()
    failed = results.errors
    if failed:
        lines = "\n".join(f"{tp}: {error}" for tp, error in sorted(failed.items()))
        raise CommandFault(f"Error reassigning partition(s):\n{lines}")
    plural = "s" if len(wanted) > 1 else ""
    names = ",".join(str(tp) for tp in sorted(wanted))
    out.line(f"Successfully started partition reassignment{plural} for {names}")
    start_moves(admin, moves, given.number("timeout"), out)
    if out.is_json:
        out.json(
            {
                "previous": assignment_json(current, {}),
                "started": [place(tp) for tp in sorted(wanted)],
                "moves": [move_row(replica, path) for replica, path in sorted(moves.items())],
            }
        )


def check_plan(admin: Admin, given: Given, wanted: Plan) -> None:
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
    from moldau.client.shared.client_errors import UnsupportedVersionError

    try:
        return admin.list_partition_reassignments()
    except UnsupportedVersionError:
        return {}  # nothing can be moved there, so nothing is


def verify(admin: Admin, given: Given, out: Output) -> None:
    content = json_file(given.text("reassignment-json-file"))
    wanted, moves = plan_of(content), moves_of(content)
    under_way = moving(admin)
    current = current_of(admin, wanted)
    out.line("Status of partition reassignment:")
    rows = []
    for tp in sorted(wanted):
        state = "active" if tp in under_way else "none"
        if tp not in under_way and current[tp] == wanted[tp]:
            state = "completed"
        rows.append({**place(tp), "state": state, "replicas": current[tp], "wanted": wanted[tp]})
        if tp in under_way:
            out.line(f"Reassignment of partition {tp} is still in progress.")
        elif current[tp] == wanted[tp]:
            out.line(f"Reassignment of partition {tp} is completed.")
        else:
            out.line(
                f"There is no active reassignment of partition {tp}, but replica set is"
                f" {commas(current[tp])} rather than {commas(wanted[tp])}."
            )
    states = states_of(admin, moves)
    out.line("\n".join(states.values()))
    is_busy = any(tp in under_way for tp in wanted) or any(
        state.endswith("in progress.") for state in states.values()
    )
    clears = not is_busy and not given.has("preserve-throttles")
    if clears:
        clear_throttles(admin, out, wanted)
    if out.is_json:
        told = [{**move_row(r, moves[r]), "state": state} for r, state in states.items()]
        out.json({"partitions": rows, "moves": told, "throttlesCleared": clears})


def move_row(replica: TopicPartitionReplica, path: str) -> dict[str, Any]:
    topic, partition = replica.topic, replica.partition
    return {
        "topic": topic,
        "partition": partition,
        "brokerId": replica.broker_id,
        "logDir": path,
    }


def cancel(admin: Admin, given: Given, out: Output) -> None:
    content = json_file(given.text("reassignment-json-file"))
    wanted, moves = plan_of(content), moves_of(content)
    under_way = [tp for tp in moving(admin) if tp in wanted]
    plural = "s" if len(under_way) > 1 else ""
    if not under_way:
        out.line("None of the specified partition reassignments are active.")
    else:
        targets = dict.fromkeys(under_way)
        failed = admin.alter_partition_reassignments(targets, raise_errors=False).errors
        if failed:
            lines = "\n".join(f"{tp}: {error}" for tp, error in sorted(failed.items()))
            some = "s" if len(failed) > 1 else ""
            raise CommandFault(
                f"Error cancelling partition reassignment{some} for:\n{lines}", prefixed=False
            )
        names = ",".join(str(tp) for tp in sorted(under_way))
        out.line(f"Successfully cancelled partition reassignment{plural} for: {names}")
    back = way_back(admin, moves)
    if back:
        start_moves(admin, back, given.number("timeout"), out)
    else:
        out.write("None of the specified partition moves are active.")
    clears = not given.has("preserve-throttles")
    if clears:
        clear_throttles(admin, out, wanted)
    if out.is_json:
        out.json(
            {
                "cancelled": [place(tp) for tp in sorted(under_way)],
                "moves": [move_row(replica, path) for replica, path in sorted(back.items())],
                "throttlesCleared": clears,
            }
        )


def list_all(admin: Admin, given: Given, out: Output) -> None:
    under_way = moving(admin)
    if given.has("json"):
        out.json(
            [
                {
                    **place(tp),
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
        Flag("--execute", "Carry out a plan: start the moves and return."),
        Flag("--verify", "Say how far it is, and lift throttles when it is done."),
        Flag(
            "--cancel",
            "Stop the moves of a plan that are under way; replicas stay where they are.",
        ),
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
        Flag(
            "--throttle",
            "How many bytes a second may go between brokers for the moves; -1 no limit.",
            "BYTES",
            kind=long,
            default=-1,
        ),
        Flag(
            "--replica-alter-log-dirs-throttle", takes="BYTES", kind=long, default=-1, hidden=True
        ),
        Flag("--additional", "Start the moves even while others are under way."),
        Flag("--preserve-throttles", "Leave throttles as they are."),
        Flag(
            "--disallow-replication-factor-change",
            "Refuse plans that change how many replicas there are.",
        ),
        Flag("--disable-rack-aware", "For --generate: do not look at brokers' racks."),
        Flag("--timeout", takes="MS", kind=long, default=10_000, hidden=True),
        Flag("--bootstrap-controller", takes="HOST:PORT", hidden=True),
        ZOOKEEPER,
        COMMAND_CONFIG,
        JSON,
    ),
    main=main,
    actions=actions_of(ACTIONS, needs=NEEDED, only_with=ONLY_WITH),
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
