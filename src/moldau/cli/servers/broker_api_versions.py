"""`moldau broker-api-versions`: the requests each broker serves, and which of them we can use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.answers import fault_of as as_data
from moldau.cli.command_clients import fault_of, open_admin
from moldau.cli.flags import Given
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool

if TYPE_CHECKING:
    from moldau.client.admin.admin_results import ApiVersionRange
    from moldau.client.network.network_client import Node
    from moldau.wire.apis import Api

BETWEEN_BROKERS = frozenset((4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82))
"""What no client sends; brokers that do not serve the rest are said not to."""


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    from moldau.client.shared.client_errors import KafkaError
    from moldau.wire.apis import APIS, OWN_FROM

    known = {api.key: api for api in APIS}
    shown: list[dict[str, Any]] = []
    failed = 0
    with open_admin(given, out) as admin:
        for node in admin.describe_cluster().nodes:
            try:
                served = admin.api_versions(node.id)
            except KafkaError as error:
                out.line(f"{node_text(node)} -> ERROR: {fault_of(error).java}: {error}")
                shown.append({**node_row(node), "error": as_data(error)})
                failed += 1
                continue
            lines = []
            for key in sorted({*served, *known} - BETWEEN_BROKERS):
                if key >= OWN_FROM:
                    continue  # Moldau's own, which Kafka's command does not know; `--json` has them
                api, row = known.get(key), served.get(key)
                name = f"UNKNOWN({key})" if api is None else f"{api.name}({key})"
                if row is None:
                    lines.append(f"\t{name}: UNSUPPORTED")
                    continue
                usable = use_of(row, api)
                lines.append(f"\t{name}: {versions_text(*row[1:])} [{usable}]")
            apis = [api_row(row, known.get(key)) for key, row in sorted(served.items())]
            shown.append({**node_row(node), "apis": apis})
            out.line(f"{node_text(node)} -> (")
            out.line(",\n".join(lines))
            out.line(")")
    if out.is_json:
        out.json(shown)
    return 1 if failed else 0


def node_row(node: Node) -> dict[str, Any]:
    return {"id": node.id, "host": node.host, "port": node.port}


def api_row(row: ApiVersionRange, api: Api | None) -> dict[str, Any]:
    return {
        "key": row.api_key,
        "name": None if api is None else api.name,
        "minVersion": row.min_version,
        "maxVersion": row.max_version,
    }


def node_text(node: Node) -> str:
    address = f"{node.host}:{node.port}"
    return f"{address} (id: {node.id} rack: {node.rack or 'null'} isFenced: false)"


def versions_text(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def use_of(row: ApiVersionRange, api: Api | None) -> str:
    if api is None:
        return "unusable: unknown"
    if row.max_version < api.version_min:
        return "unusable: node too old"
    if row.min_version > api.version_max:
        return "unusable: node too new"
    return f"usable: {min(row.max_version, api.version_max)}"


TOOL = Tool(
    name="broker-api-versions",
    does="Shows for every broker which requests it serves, in which versions.",
    flags=(BOOTSTRAP, COMMAND_CONFIG, JSON),
    main=main,
    examples=("moldau broker-api-versions --bootstrap-server localhost:9092",),
)
