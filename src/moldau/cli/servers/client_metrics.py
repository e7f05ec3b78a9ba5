"""`moldau client-metrics`: which metrics clients push (KIP-714), as kafka-client-metrics.sh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.cli.command_clients import open_admin
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import BOLD, Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, actions_of, run_tool

if TYPE_CHECKING:
    from moldau.admin import Admin, ConfigResource

ACTIONS = ("alter", "delete", "describe", "list")
CHANGES = ("generate-name", "interval", "match", "metrics")
ONLY_WITH = {
    "name": ("alter", "delete", "describe"),
    **dict.fromkeys(CHANGES, ("alter",)),
}
NOT_WITH = {"delete": CHANGES, "describe": CHANGES, "list": ("name", *CHANGES)}


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    action = checked_action(given)
    with open_admin(given, out) as admin:
        if action == "alter":
            alter(admin, given, out)
        elif action == "delete":
            delete(admin, given.text("name"), out)
        elif action == "describe":
            describe(admin, given, out)
        else:
            names = subscriptions(admin)
            if given.has("json"):
                out.json(names)
            else:
                out.line("\n".join(names))


def checked_action(given: Given) -> str:
    actions = [action for action in ACTIONS if given.has(action)]
    if len(actions) != 1:
        raise UsageFault(
            "Command must include exactly one action: --alter, --delete, --describe or --list."
        )
    (action,) = actions
    if not given.has("bootstrap-server"):
        raise UsageFault("--bootstrap-server must be specified.")
    for flag in NOT_WITH.get(action, ()):
        if given.has(flag):
            raise UsageFault(f'Option "[{action}]" can\'t be used with option "[{flag}]"')
    if action == "alter":
        if given.has("name") == given.has("generate-name"):
            raise UsageFault("One of --name or --generate-name must be specified with --alter.")
        interval = given.maybe_text("interval")
        if interval and not interval.removeprefix("-").isdigit():
            raise UsageFault("Invalid interval value. Enter an integer, or leave empty to reset.")
    elif action == "delete" and not given.has("name"):
        raise UsageFault("A client metrics resource name must be specified with --delete.")
    return action


def alter(admin: Admin, given: Given, out: Output) -> None:
    name = given.text("name") if given.has("name") else new_name()
    changes: dict[str, str | None] = {}
    for flag, key in (("interval", "interval.ms"), ("metrics", "metrics"), ("match", "match")):
        if given.has(flag):
            # What is left empty goes back to its default.
            changes[key] = given.text(flag) or None
    admin.incremental_alter_configs({resource(name): changes}).check()
    if out.is_json:
        out.json({"altered": name, "set": sorted(changes)})
    out.line(f"Altered client metrics config for {name}.")


def new_name() -> str:
    import uuid

    from moldau.model.names import uuid_text

    while True:
        name = uuid_text(uuid.uuid4().bytes)
        if not name.startswith("-"):
            return name


def delete(admin: Admin, name: str, out: Output) -> None:
    changes: dict[str, str | None] = dict.fromkeys(settings_of(admin, name))
    admin.incremental_alter_configs({resource(name): changes}).check()
    if out.is_json:
        out.json({"deleted": name})
    out.line(f"Deleted client metrics config for {name}.")


def describe(admin: Admin, given: Given, out: Output) -> None:
    names = subscriptions(admin)
    name = given.maybe_text("name")
    if name is not None:
        if name not in names:
            sentence = (
                f"The client metric resource {name} doesn't exist and doesn't have dynamic config."
            )
            raise CommandFault(sentence, told=sentence)
        names = [name]
    if given.has("json"):
        out.json([{"name": each, "configs": settings_of(admin, each)} for each in names])
        return
    for each in names:
        out.line(out.paint(f"Client metrics configs for {each} are:", BOLD))
        for key, value in settings_of(admin, each).items():
            out.line(f"  {key}={value}")


def subscriptions(admin: Admin) -> list[str]:
    from moldau.client.admin.admin_results import ResourceType

    found = admin.list_config_resources([ResourceType.CLIENT_METRICS])
    return [each.name for each in found]


def settings_of(admin: Admin, name: str) -> dict[str, str | None]:
    described = admin.describe_configs([resource(name)]).check()[resource(name)]
    return {key: entry.value for key, entry in described.items()}


def resource(name: str) -> ConfigResource:
    from moldau.client.admin.admin_results import ConfigResource, ResourceType

    return ConfigResource(ResourceType.CLIENT_METRICS, name)


TOOL = Tool(
    name="client-metrics",
    does="Says which of their own metrics clients are to push to the brokers, and how often.",
    flags=(
        BOOTSTRAP,
        COMMAND_CONFIG,
        Flag("--alter", "Make a subscription, or change it."),
        Flag("--delete", "Delete a subscription: clients stop to push what only it asks for."),
        Flag("--describe", "Show what subscriptions ask for."),
        Flag("--list", "List the names of subscriptions."),
        Flag("--name", "The name of the subscription.", takes="NAME"),
        Flag("--generate-name", "Let the command find a name."),
        Flag(
            "--interval",
            "How often, in milliseconds, 100 to 3600000; empty for the default of 5 minutes.",
            takes="MS",
        ),
        Flag(
            "--match",
            "Which clients are meant, as key=regular expression; all that are named must match. "
            "Keys: client_id, client_instance_id, client_software_name, client_software_version, "
            "client_source_address, client_source_port.",
            takes="K1=V1,K2=V2",
        ),
        Flag("--metrics", "Beginnings of names of metrics; * stands for all.", takes="M1,M2"),
        JSON,
    ),
    main=main,
    actions=actions_of(ACTIONS, only_with=ONLY_WITH, needs={"delete": ("name",)}),
    fault_opening="Error while executing client metrics command : ",
    faults_on_stdout=True,
    examples=(
        "moldau client-metrics --bootstrap-server localhost:9092 --alter --name all-java"
        " --metrics '*' --interval 60000 --match client_software_name=apache-kafka-java",
        "moldau client-metrics --bootstrap-server localhost:9092 --describe --name all-java",
    ),
)
