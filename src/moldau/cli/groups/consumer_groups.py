"""`moldau consumer-groups`: list, describe, reset and delete groups, as kafka-consumer-groups.sh.

A cluster's refusal ("no such group") is printed as Kafka's tool prints it, on stdout; the exit code
is 1 then, where Kafka's tool ends with 0 and a script goes on as if all were well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.answers import fault_of, place
from moldau.cli.command_clients import ZOOKEEPER, java_name, open_admin
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, long
from moldau.cli.groups.consumer_group_tables import WIDTH_MIN, describe
from moldau.cli.groups.offset_resets import SCENARIOS, reset_offsets
from moldau.cli.output import Output
from moldau.cli.tool import (
    BOOTSTRAP,
    COMMAND_CONFIG,
    JSON,
    ONE_CONSUMER,
    Tool,
    actions_of,
    run_tool,
)

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
)
KINDS = ("Classic", "Consumer")
ONLY_WITH = {
    "dry-run": ("reset-offsets",),
    "execute": ("reset-offsets",),
    "export": ("reset-offsets",),
    "all-topics": ("reset-offsets",),
    "topic": ("reset-offsets", "delete-offsets"),
    "members": ("describe",),
    "offsets": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
    **dict.fromkeys(SCENARIOS, ("reset-offsets",)),
}

NEEDS = {
    "describe": ("group",),
    "delete": ("group",),
    "reset-offsets": ("group",),
    "delete-offsets": ("group", "topic"),
}
"""Instead of a group, all of them may be named but with delete-offsets."""


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    chosen = [action for action in ACTIONS if given.has(action)]
    if len(chosen) != 1:
        raise UsageFault(
            "Command must include exactly one action: --list, --describe, --delete,"
            " --reset-offsets, --delete-offsets, --validate-regex"
        )
    action = chosen[0]
    if action == "validate-regex":
        validate_regex(given.text("validate-regex"), out)
        return 0
    check(action, given)
    from moldau.client.shared.client_errors import KafkaError

    with open_admin(given, out) as admin:
        try:
            return DO[action](admin, given, out)
        except UsageFault:
            raise
        except CommandFault as fault:
            raise refused(fault.sentence, fault.sentence, fault.java) from None
        except KafkaError as error:
            java = java_name(error)
            told = str(error) if action == "reset-offsets" else f"{java}: {error}"
            raise refused(str(error), told, java) from None


def refused(sentence: str, told: str, java: str) -> CommandFault:
    opening = "\nError: Executing consumer group command failed due to "
    return CommandFault(sentence, told=opening + told, java=java)


def check(action: str, given: Given) -> None:
    for flag, actions in ONLY_WITH.items():
        if given.has(flag) and action not in actions:
            raise UsageFault(f'Option "[{flag}]" can\'t be used with option "[{action}]"')
    has_groups = given.has("group") or given.has("all-groups")
    if action in ("describe", "delete", "reset-offsets") and not has_groups:
        raise UsageFault(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if action == "describe":
        shown = [each for each in ("members", "offsets", "state") if given.has(each)]
        if len(shown) > 1:
            raise UsageFault(
                "Option [describe] takes at most one of these options: [members], [offsets],"
                " [state]"
            )
    if action == "delete-offsets" and not (given.has("group") and given.has("topic")):
        raise UsageFault("Option [delete-offsets] takes the following options: [topic], [group]")
    if action == "reset-offsets":
        check_reset(given)


def check_reset(given: Given) -> None:
    if given.has("dry-run") and given.has("execute"):
        raise UsageFault("Option [reset-offsets] only accepts one of [execute], [dry-run]")
    scenarios = [each for each in SCENARIOS if given.has(each)]
    if len(scenarios) != 1:
        names = ", ".join(f"[{each}]" for each in SCENARIOS)
        raise UsageFault(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{names}]"
        )
    if not any(given.has(each) for each in ("all-topics", "topic", "from-file")):
        raise UsageFault("One of the reset scopes should be defined: --all-topics, --topic.")


def validate_regex(text: str, out: Output) -> None:
    import re

    try:
        re.compile(text)
    except re.error as fault:
        raise CommandFault(f"The regex `{text}` is invalid: {fault}.") from None
    if out.is_json:
        out.json({"regex": text, "valid": True})
    out.line(f"The regex `{text}` is valid.")


def list_groups(admin: Admin, given: Given, out: Output) -> int:
    states = chosen_of(given, "state", STATES)
    kinds = chosen_of(given, "type", KINDS)
    found = [
        each
        for each in admin.list_groups(states=states, types=[kind.lower() for kind in kinds])
        if each.protocol_type in ("", "consumer")
    ]
    columns = [("GROUP", [each.group_id for each in found])]
    if given.has("type"):
        columns.append(("TYPE", [each.type.capitalize() for each in found]))
    if given.has("state"):
        columns.append(("STATE", [each.state for each in found]))
    if given.has("json"):
        keys = [title.lower() for title, _ in columns]
        rows = zip(*(cells for _, cells in columns), strict=True)
        out.json([dict(zip(keys, row, strict=True)) for row in rows])
        return 0
    if len(columns) == 1:
        for name in columns[0][1]:
            out.line(name)
        return 0
    width = max([WIDTH_MIN, *(len(name) for name in columns[0][1])]) + 10
    for row in [[title for title, _ in columns], *zip(*(c for _, c in columns), strict=True)]:
        first, *others = row
        out.line(" ".join([f"{first:<{width}}", *(f"{cell:<20}" for cell in others)]))
    return 0


def chosen_of(given: Given, flag: str, known: Iterable[str]) -> list[str]:
    """The states or types to filter by, in their own spelling."""
    text = given.maybe_text(flag) if given.has(flag) else None
    if not text:
        return []
    spelled = {each.lower(): each for each in known}
    chosen = []
    for word in text.split(","):
        found = spelled.get(word.strip().lower())
        if found is None:
            known_ones = ", ".join(spelled.values())
            raise UsageFault(f"Invalid {flag} list '{text}'. Valid {flag}s are: {known_ones}")
        chosen.append(found)
    return chosen


def groups_of(admin: Admin, given: Given) -> list[str]:
    if given.has("all-groups"):
        return [
            each.group_id for each in admin.list_groups() if each.protocol_type in ("", "consumer")
        ]
    return list(dict.fromkeys(given.texts("group")))


def delete(admin: Admin, given: Given, out: Output) -> int:
    results = admin.delete_groups(groups_of(admin, given), raise_errors=False)
    done = list(results)
    if given.has("json"):
        failed = [
            {"group": name, "error": fault_of(error)} for name, error in results.errors.items()
        ]
        out.json({"deleted": done, "failed": failed})
        return 1 if failed else 0
    if not results.errors:
        out.line(f"Deletion of requested consumer groups ({quoted(done)}) was successful.")
        return 0
    out.line("\nError: Deletion of some consumer groups failed:")
    for name, error in results.errors.items():
        out.line(f"* Group '{name}' could not be deleted due to: {java_name(error)}: {error}")
    if done:
        out.line(f"\nThese consumer groups were deleted successfully: {quoted(done)}")
    return 1


def quoted(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def delete_offsets(admin: Admin, given: Given, out: Output) -> int:
    from moldau.cli.groups.offset_resets import partitions_of_topics

    group = given.texts("group")[0]
    partitions, unknown = partitions_of_topics(admin, given.texts("topic"))
    results = (
        admin.delete_group_offsets(group, partitions, raise_errors=False).outcomes
        if partitions
        else {}
    )
    failed = bool(unknown) or any(isinstance(each, Exception) for each in results.values())
    if out.is_json:
        rows_of_all: list[dict[str, Any]] = [
            {**place(tp), "error": None if result is None else fault_of(result)}
            for tp, result in sorted(results.items())
        ]
        rows_of_all += [
            {"topic": topic, "partition": None, "error": fault_of(error)}
            for topic, error in unknown.items()
        ]
        out.json({"group": group, "offsets": rows_of_all})
        return 1 if failed else 0
    rows = [(tp.topic, str(tp.partition), outcome(results[tp])) for tp in sorted(results)]
    rows += [(topic, "-", outcome(error)) for topic, error in unknown.items()]
    if any(isinstance(each, Exception) for each in results.values()):
        out.line("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        out.line(f"Request succeeded for deleting offsets from group {group}.")
    out.line(f"\n{'TOPIC':<15} {'PARTITION':<10} {'STATUS':<15}")
    for topic, partition, status in rows:
        out.line(f"{topic:<15} {partition:<10} {status:<15}")
    return 1 if failed else 0


def outcome(result: Exception | None) -> str:
    return "Successful" if result is None else f"Error: {java_name(result)}: {result}"


def describe_groups(admin: Admin, given: Given, out: Output) -> int:
    describe(admin, given, out, groups_of(admin, given))
    return 0


def reset(admin: Admin, given: Given, out: Output) -> int:
    return reset_offsets(admin, given, out, groups_of(admin, given))


DO = {
    "list": list_groups,
    "describe": describe_groups,
    "delete": delete,
    "reset-offsets": reset,
    "delete-offsets": delete_offsets,
}

TOOL = Tool(
    name="consumer-groups",
    does="Lists and describes consumer groups with their lag, resets and deletes their offsets.",
    flags=(
        BOOTSTRAP,
        Flag("--list", "List all groups."),
        Flag("--describe", "Show offsets and lag, or what the flags below ask for."),
        Flag("--offsets", "With --describe: offsets and lag of each partition; the default."),
        Flag("--members", "With --describe: the members of the group, and what each one reads."),
        Flag(
            "--state",
            "With --describe or --list: the state. With --list also a filter, as stable,empty.",
            takes="STATES",
            bare="",
        ),
        Flag("--type", "With --list: the type, or only some types.", takes="TYPES", bare=""),
        Flag("--verbose", "With --describe: more columns, as the epochs."),
        Flag("--reset-offsets", "Plan new offsets, and with --execute set them."),
        Flag("--delete-offsets", "Forget where a group stands in topics."),
        Flag("--delete", "Delete groups that have no members."),
        Flag("--group", "The group that is meant.", takes="NAME", repeats=True),
        Flag("--all-groups", "All groups are meant."),
        Flag("--topic", "A topic, or some partitions as orders:0,1.", takes="TOPIC", repeats=True),
        Flag("--all-topics", "All topics that the group has offsets for."),
        Flag("--to-earliest", "Begin again at the first record that is there."),
        Flag("--to-latest", "Go on with what comes from now on."),
        Flag("--to-current", "Reset to the committed offset, or the end where there is none."),
        Flag("--to-offset", "Go on at this offset.", takes="OFFSET", kind=long),
        Flag("--shift-by", "Move by so many, forwards or backwards.", takes="N", kind=long),
        Flag("--to-datetime", "Reset to YYYY-MM-DDThh:mm:ss.sss (UTC).", takes="TIME"),
        Flag("--by-duration", "Reset to so long ago: PnDTnHnMnS.", takes="DURATION"),
        Flag("--from-file", "Reset to what a CSV file says (see --export).", takes="FILE"),
        Flag("--dry-run", "Only show the plan; nothing is changed."),
        Flag("--execute", "Set the offsets that were planned."),
        Flag("--export", "Print the plan as CSV."),
        Flag(
            "--timeout",
            "How long to wait for the cluster's answers, in milliseconds.",
            takes="MS",
            kind=long,
            default=30_000,
        ),
        Flag("--validate-regex", "Only check whether a pattern can be used.", takes="REGEX"),
        Flag("--new-consumer", hidden=True, no_effect=ONE_CONSUMER),
        ZOOKEEPER,
        COMMAND_CONFIG,
        JSON,
    ),
    main=main,
    actions=actions_of(ACTIONS, only_with=ONLY_WITH, needs=NEEDS),
    examples=(
        "moldau consumer-groups --bootstrap-server localhost:9092 --list",
        "moldau consumer-groups --bootstrap-server localhost:9092 --describe --group billing",
        "moldau consumer-groups --bootstrap-server localhost:9092 --describe --group billing"
        " --members --verbose",
        "moldau consumer-groups --bootstrap-server localhost:9092 --reset-offsets --group billing"
        " --topic orders --to-earliest --execute",
        "moldau consumer-groups --bootstrap-server localhost:9092 --delete --group billing",
    ),
)
