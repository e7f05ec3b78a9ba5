"""`moldau groups`: groups of all kinds, as kafka-groups.sh lists them."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.cli.command_clients import open_admin
from moldau.cli.command_faults import UsageFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, actions_of, run_tool

WIDTH_MIN = 20


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    if not given.has("list"):
        raise UsageFault("Command must include exactly one action: --list.")
    with open_admin(given, out) as admin:
        groups = admin.list_groups()
    rows = [(each.group_id, each.type.capitalize(), each.protocol_type) for each in groups]
    rows = [row for row in rows if is_wanted(given, *row)]
    if given.has("json"):
        keys = ("group", "type", "protocol")
        out.json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    if out.is_terminal:
        out.table(("GROUP", "TYPE", "PROTOCOL"), rows)
        return
    width = max([WIDTH_MIN, *(len(cell) for row in rows for cell in row)])
    out.line(f"{'GROUP':<{width}} {'TYPE':<{width}} {'PROTOCOL':<{width}}")
    for row in rows:
        out.line("".join(f"{cell:<{width}} " for cell in row))


def is_wanted(given: Given, group: str, kind: str, protocol: str) -> bool:
    if given.has("group-type") and given.text("group-type").lower() != kind.lower():
        return False
    if given.has("protocol") and given.text("protocol") != protocol:
        return False
    if given.has("consumer"):
        return kind == "Consumer" or (kind == "Classic" and protocol in ("", "consumer"))
    if given.has("share"):
        return kind == "Share"
    return not given.has("streams") or kind == "Streams"


TOOL = Tool(
    name="groups",
    does="Lists the groups of a cluster, of all kinds: a group shares the work of reading"
    " among its members.",
    flags=(
        BOOTSTRAP,
        Flag("--list", "List the groups of the cluster."),
        Flag("--consumer", "Only groups of consumers."),
        Flag("--share", "Only share groups."),
        Flag("--streams", "Only streams groups."),
        Flag(
            "--group-type",
            "Only groups of this type: Classic, Consumer, Share or Streams.",
            takes="TYPE",
        ),
        Flag("--protocol", "Only groups with this protocol.", takes="NAME"),
        COMMAND_CONFIG,
        JSON,
    ),
    main=main,
    actions=actions_of(("list",)),
    examples=("moldau groups --bootstrap-server localhost:9092 --list",),
)
