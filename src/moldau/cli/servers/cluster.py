"""`moldau cluster`: the cluster's id and its brokers, as kafka-cluster.sh shows them."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.cli.command_clients import open_admin
from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.servers.local_cluster_commands import COMMANDS
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def cluster_id(given: Given, out: Output) -> None:
    with open_admin(given, out, config_key=config_key(given)) as admin:
        found = admin.describe_cluster().cluster_id
    if given.has("json"):
        out.json({"clusterId": found})
    elif found:
        out.line(f"Cluster ID: {found}")
    else:
        out.line("No cluster ID found. The Kafka version is probably too old.")


def list_endpoints(given: Given, out: Output) -> None:
    with open_admin(given, out, config_key=config_key(given)) as admin:
        nodes = admin.describe_cluster(
            include_fenced_brokers=given.has("include-fenced-brokers")
        ).nodes
    if given.has("json"):
        out.json([node._asdict() for node in nodes])
        return
    hosts = max((len(node.host) for node in nodes), default=4)
    racks = max((len(node.rack or "") for node in nodes), default=0)
    line = f"{{:<10}} {{:<{hosts}}} {{:<10}} {{:<{max(racks, 10)}}} {{:<10}} {{:<15}}"
    out.line(line.format("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"))
    for node in nodes:
        row = (node.id, node.host, node.port, node.rack or "null", "unfenced", "broker")
        out.line(line.format(*row))


def unregister(given: Given, out: Output) -> None:
    from moldau.client.shared.client_errors import UnsupportedVersionError

    broker = given.number("id")
    with open_admin(given, out, config_key=config_key(given)) as admin:
        try:
            admin.unregister_broker(broker)
        except UnsupportedVersionError:
            sentence = "The target cluster does not support the broker unregistration API."
            raise CommandFault(sentence, told=sentence) from None
    if out.is_json:
        out.json({"unregistered": broker})
    out.line(f"Broker {broker} is no longer registered.")


def config_key(given: Given) -> str:
    return "config" if given.has("config") else "command-config"


def nothing(given: Given, out: Output) -> None:
    """The sub-commands do the work."""


ID = Flag("--id", "The broker to forget.", takes="ID", kind=integer, required=True)
FENCED = Flag("--include-fenced-brokers", "Brokers that may not serve yet, too.")
TOOL = Tool(
    name="cluster",
    does="Shows the id of a cluster and its brokers; runs a cluster on this machine.",
    flags=(
        BOOTSTRAP,
        COMMAND_CONFIG,
        Flag("--config", takes="FILE", hidden=True),
        JSON,
    ),
    main=nothing,
    commands=(
        Tool(
            "cluster cluster-id",
            "Shows the id by which the cluster is known.",
            (),
            cluster_id,
            examples=("moldau cluster cluster-id --bootstrap-server localhost:9092",),
        ),
        Tool(
            "cluster list-endpoints",
            "Lists the brokers of the cluster with their addresses.",
            (FENCED,),
            list_endpoints,
            examples=("moldau cluster list-endpoints --bootstrap-server localhost:9092",),
        ),
        Tool(
            "cluster unregister",
            "Forgets a broker that will not return.",
            (ID,),
            unregister,
            examples=("moldau cluster unregister --bootstrap-server localhost:9092 --id 2",),
        ),
        *COMMANDS,
    ),
    examples=(
        "moldau cluster cluster-id --bootstrap-server localhost:9092",
        "moldau cluster start --brokers 3",
        "moldau cluster status --json",
        "moldau cluster stop",
    ),
)
