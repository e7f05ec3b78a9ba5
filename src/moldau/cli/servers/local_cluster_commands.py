"""`moldau cluster start`, `status` and `stop`: a cluster of processes on this machine."""

from __future__ import annotations

from pathlib import Path

from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.servers.local_cluster import KAFKA_PORT, LocalCluster, Plan, zookeeper_ports
from moldau.cli.tool import Tool

DIR = Flag("--dir", "Where the cluster lives: settings, data, logs.", takes="D", default="data")
PORT = Flag("--port", "Of the first broker; the others follow it.", takes="P", kind=integer)
BROKERS = Flag("--brokers", "How many brokers; 3 if nothing is said.", takes="N", kind=integer)
ZOOKEEPERS = Flag("--zookeepers", "How many servers the ensemble has.", takes="N", kind=integer)
BROKERS_MAX = 100


def start(given: Given, out: Output) -> None:
    cluster = LocalCluster(Path(given.text("dir")))
    plan = _plan(given, cluster.plan)
    cluster.start(plan, out.remark)
    if given.has("json"):
        _show_json(cluster, out)
        return
    out.line(f"{plan.brokers} brokers are up: {plan.bootstrap}")
    out.line(f"ZooKeeper: {plan.zookeeper_connect}")


def _plan(given: Given, earlier: Plan | None) -> Plan:
    """What is asked for, and for the rest what there was before."""

    def wanted(flag: str, before: int) -> int:
        return given.number(flag) if given.has(flag) else before

    count = wanted("brokers", earlier.brokers if earlier else 3)
    port = wanted("port", earlier.port if earlier else KAFKA_PORT)
    servers = wanted("zookeepers", len(earlier.zookeeper_ports) if earlier else 1)
    if not 1 <= count <= BROKERS_MAX:
        raise CommandFault(f"--brokers {count} must be 1 to {BROKERS_MAX}.")
    if servers not in (1, 3, 5, 7):
        raise CommandFault(f"--zookeepers {servers} must be 1, 3, 5 or 7: a majority decides.")
    if earlier is not None:
        if port != earlier.port or servers != len(earlier.zookeeper_ports):
            raise CommandFault(
                f"this folder holds a cluster on port {earlier.port} with "
                f"{len(earlier.zookeeper_ports)} ZooKeeper servers; choose another --dir for "
                "another cluster."
            )
        count = max(count, earlier.brokers)
    return Plan(count, port, zookeeper_ports(servers, port))


def status(given: Given, out: Output) -> int:
    cluster = LocalCluster(Path(given.text("dir")))
    if cluster.plan is None:
        raise CommandFault(
            f"there is no cluster in {given.text('dir')}; `moldau cluster start` makes one."
        )
    if given.has("json"):
        return _show_json(cluster, out)
    brokers, zookeepers = rows(cluster)
    header = ("NAME", "PID", "PORT", "STATE", "CONTROLLER")
    shown = [
        (f"broker {b['id']}", b["pid"], b["port"], b["state"], "yes" if b["isController"] else "")
        for b in brokers
    ]
    shown += [(f"zookeeper {z['id']}", z["pid"], z["port"], z["state"], "") for z in zookeepers]
    out.table(header, shown)
    return exit_code(cluster)


def _show_json(cluster: LocalCluster, out: Output) -> int:
    brokers, zookeepers = rows(cluster)
    out.json({"brokers": brokers, "zookeepers": zookeepers})
    return exit_code(cluster)


def exit_code(cluster: LocalCluster) -> int:
    members = (*cluster.brokers, *cluster.zookeepers)
    return 0 if all(cluster.pid_of(member) is not None for member in members) else 1


def rows(cluster: LocalCluster) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    registered = cluster.registered()
    brokers: list[dict[str, object]] = []
    for number, member in enumerate(cluster.brokers):
        pid = cluster.pid_of(member)
        state = "stopped" if pid is None else "running" if number in registered else "starting"
        brokers.append(
            {
                "id": number,
                "pid": pid,
                "port": member.port,
                "state": state,
                "isController": pid is not None and registered.get(number, False),
            }
        )
    zookeepers: list[dict[str, object]] = []
    for number, member in enumerate(cluster.zookeepers, 1):
        pid = cluster.pid_of(member)
        state = "stopped" if pid is None else "running"
        zookeepers.append({"id": number, "pid": pid, "port": member.port, "state": state})
    return brokers, zookeepers


def stop(given: Given, out: Output) -> int:
    folder = given.text("dir")
    cluster = LocalCluster(Path(folder))
    stopped = cluster.stop(out.remark)
    if out.is_json and stopped:
        out.json({"stopped": stopped})
    if stopped == 0:
        sentence = f"No cluster runs in {folder}"
        raise CommandFault(sentence, told=sentence)
    return 0 if stopped else 1


COMMANDS = (
    Tool(
        "cluster start",
        "Starts ZooKeeper and brokers on this machine, or what is missing of them: a cluster"
        " to try.",
        (BROKERS, DIR, PORT, ZOOKEEPERS),
        start,
        examples=("moldau cluster start --brokers 3 --dir my-cluster",),
    ),
    Tool(
        "cluster status",
        "Shows the processes of a cluster on this machine.",
        (DIR,),
        status,
        examples=("moldau cluster status --dir my-cluster",),
    ),
    Tool(
        "cluster stop",
        "Stops a cluster on this machine; its data stay.",
        (DIR,),
        stop,
        examples=("moldau cluster stop --dir my-cluster",),
    ),
)
