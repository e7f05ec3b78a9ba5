"""What a coordinator's own log says, as those understand it who ask the coordinator.

Pure. Clients of groups and transactions know nothing of that log: its faults are told as faults of
the coordinator, which make a client look for it again or wait. Whoever asks for markers speaks of
partitions, and knows nothing of coordinators: there the same table is read the other way.
"""

from __future__ import annotations

from typing import Final

from moldau.model.errors import Error

_OF_THE_LOG: Final = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Error.COORDINATOR_NOT_AVAILABLE,
    Error.REQUEST_TIMED_OUT: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
}
_OF_COORDINATORS: Final = frozenset({*_OF_THE_LOG.values(), Error.COORDINATOR_LOAD_IN_PROGRESS})
TOO_LARGE: Final = frozenset(
    {Error.MESSAGE_TOO_LARGE, Error.RECORD_LIST_TOO_LARGE, Error.INVALID_FETCH_SIZE}
)
"""About what was asked for, so the coordinator hears of it as it is."""


def of_coordinator(error: Error) -> Error:
    """What the log says, in the words of a coordinator."""
    return _OF_THE_LOG.get(error, error)


def told_to_client(error: Error) -> Error:
    return Error.UNKNOWN_SERVER_ERROR if error in TOO_LARGE else of_coordinator(error)


def told_of_commit(error: Error) -> Error:
    """Whoever commits is told that its commit was too large: it can send a smaller one."""
    return Error.INVALID_COMMIT_OFFSET_SIZE if error in TOO_LARGE else of_coordinator(error)


def of_partition(error: Error) -> Error:
    """What a coordinator says, to somebody who asked for a marker in its partition."""
    return Error.NOT_LEADER_OR_FOLLOWER if error in _OF_COORDINATORS else error
