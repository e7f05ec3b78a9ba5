"""What a plan of `reassign-partitions` says of log directories: started, and looked after."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from moldau.cli.command_faults import CommandFault
from moldau.cli.output import Output
from moldau.model.names import TopicPartition

if TYPE_CHECKING:
    from moldau.client.admin.admin_results import TopicPartitionReplica
    from moldau.client.admin.blocking_admin import Admin

ANYWHERE = "any"
RETRY_SECONDS = 0.1

Moves = dict["TopicPartitionReplica", str]


def moves_of(content: object) -> Moves:
    """Of a plan that was found good otherwise: the directories it names."""
    from moldau.client.admin.admin_results import TopicPartitionReplica

    assert isinstance(content, dict)
    moves: Moves = {}
    for row in content["partitions"]:
        replicas, paths = row["replicas"], row.get("log_dirs")
        if paths is None:
            continue
        if not isinstance(paths, list) or len(paths) != len(replicas):
            raise CommandFault(
                f"Size of replicas list {replicas} is different from size of log dirs list {paths}"
                f" for partition {TopicPartition(row['topic'], row['partition'])}"
            )
        for broker, path in zip(replicas, paths, strict=True):
            if path != ANYWHERE:
                moves[TopicPartitionReplica(row["topic"], int(row["partition"]), broker)] = path
    return moves


def start_moves(admin: Admin, moves: Moves, timeout_ms: int, out: Output) -> None:
    """A replica that is not on its broker yet is asked for again until it is."""
    from moldau.client.shared.client_errors import ReplicaNotAvailableError

    deadline = time.monotonic() + timeout_ms / 1000
    missing = dict(moves)
    while missing:
        for replica, error in admin.alter_replica_log_dirs(
            missing, raise_errors=False
        ).outcomes.items():
            if error is None:
                path = missing.pop(replica)
                out.line(
                    f"Successfully started moving log directory to {path} for replica "
                    f"{replica.topic}-{replica.partition} with broker {replica.broker_id} "
                )
            elif not isinstance(error, ReplicaNotAvailableError):
                raise CommandFault(f"{name_of(replica)} cannot be moved: {error}")
        if missing and time.monotonic() > deadline:
            plural = "s" if len(missing) > 1 else ""
            names = ",".join(name_of(each) for each in sorted(missing))
            raise CommandFault(
                f"Timed out before log directory move{plural} could be started for: {names}"
            )
        if missing:
            time.sleep(RETRY_SECONDS)


def states_of(admin: Admin, moves: Moves) -> dict[TopicPartitionReplica, str]:
    """A sentence for each move."""
    return {
        replica: _sentence(replica, moves[replica], *places)
        for replica, places in _places_of(admin, moves).items()
    }


def way_back(admin: Admin, moves: Moves) -> Moves:
    """The directories in which replicas that are being copied to another one lie now: asked to go
    there, a broker gives the copy up."""
    return {
        replica: current
        for replica, (current, future) in _places_of(admin, moves).items()
        if current is not None and future is not None
    }


def _places_of(
    admin: Admin, moves: Moves
) -> dict[TopicPartitionReplica, tuple[str | None, str | None]]:
    """Where each replica lies, and where it is being copied to."""
    described = admin.describe_log_dirs(raise_errors=False) if moves else {}
    found = {}
    for replica in sorted(moves):
        directories = described.get(replica.broker_id)
        current = future = None
        if directories is not None and not isinstance(directories, Exception):
            for path, directory in directories.items():
                info = directory.replicas.get(TopicPartition(replica.topic, replica.partition))
                if info is not None and info.is_future:
                    future = path
                elif info is not None:
                    current = path
        found[replica] = current, future
    return found


def _sentence(
    replica: TopicPartitionReplica, wanted: str, current: str | None, future: str | None
) -> str:
    place = f"{replica.topic}-{replica.partition}"
    if future == wanted:
        return f"Reassignment of replica {name_of(replica)} is still in progress."
    if future is not None:
        return f"Partition {place} is being moved to log dir {future} instead of {wanted}."
    if current is None:
        return (
            f"Partition {place} is not found in any live log dir on broker {replica.broker_id}. "
            "There is likely an offline log directory on the broker."
        )
    if current == wanted:
        return f"Reassignment of replica {name_of(replica)} completed successfully."
    return f"Partition {place} is not being moved from log dir {current} to {wanted}."


def name_of(replica: TopicPartitionReplica) -> str:
    return f"{replica.topic}-{replica.partition}-{replica.broker_id}"
