"""Every error code of the protocol, and the exception that carries one to the reply.

A refusal is raised as `ApiError(Error.X, sentence)` wherever a rule is broken; dispatch or the
handler's row turns it into the response. Faults and bugs never travel this way.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class Error(IntEnum):
    """Each row: the code, and what it means to whoever meets it."""

    sentence: str

    def __new__(cls, code: int, sentence: str = "") -> Self:
        error = int.__new__(cls, code)
        error._value_ = code
        error.sentence = sentence
        return error

    # fmt: off
    UNKNOWN_SERVER_ERROR = -1, "The broker met an error it did not expect; its log says more."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = (
        1, "The partition holds no record at this offset: it is before its start or past its end.")
    CORRUPT_MESSAGE = (
        2, "The records are damaged: checksum, size or format is wrong, or a key is missing.")
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This broker does not host this topic-partition."
    INVALID_FETCH_SIZE = 4, "The fetch asks for an impossible number of bytes."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment: one is being elected."
    NOT_LEADER_OR_FOLLOWER = (
        6, "This broker does not lead the partition, or holds no replica of it.")
    REQUEST_TIMED_OUT = 7, "The request was not done within its time-out."
    BROKER_NOT_AVAILABLE = 8, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, "The replica is not available on this broker."
    MESSAGE_TOO_LARGE = 10, "The batch of records is larger than the topic allows."
    STALE_CONTROLLER_EPOCH = 11, "The request comes from a controller that has been replaced."
    OFFSET_METADATA_TOO_LARGE = 12, "The note stored with the offset is too long."
    NETWORK_EXCEPTION = 13, "The connection broke before an answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still loading its state; try again."
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available."
    NOT_COORDINATOR = 16, "This is not the correct coordinator."
    INVALID_TOPIC_EXCEPTION = (
        17, "The topic's name is not allowed, or the topic must not be used this way.")
    RECORD_LIST_TOO_LARGE = 18, "The request holds more records than one segment can take."
    NOT_ENOUGH_REPLICAS = (
        19, "Fewer replicas are in sync than min.insync.replicas asks for; nothing was written.")
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20, "The records were written, but by fewer replicas than min.insync.replicas asks for.")
    INVALID_REQUIRED_ACKS = 21, "acks must be -1, 0 or 1."
    ILLEGAL_GENERATION = 22, "The member speaks of a generation of the group that is over."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The member shares no protocol with the rest of the group."
    INVALID_GROUP_ID = 24, "The group id is not allowed."
    UNKNOWN_MEMBER_ID = 25, "The coordinator is not aware of this member."
    INVALID_SESSION_TIMEOUT = 26, "The session time-out is outside the limits that the broker sets."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing, so a member has to join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The commit is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, "Topic authorization failed."
    GROUP_AUTHORIZATION_FAILED = 30, "Group authorization failed."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Cluster authorization failed."
    INVALID_TIMESTAMP = 32, "A record's timestamp is outside the range that the topic accepts."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request is not allowed at this point of the log-in."
    UNSUPPORTED_VERSION = 35, "The broker does not serve this version of the request."
    TOPIC_ALREADY_EXISTS = 36, "A topic of this name already exists."
    INVALID_PARTITIONS = 37, "The number of partitions is not allowed."
    INVALID_REPLICATION_FACTOR = (
        38, "The replication factor is below 1 or above the number of brokers.")
    INVALID_REPLICA_ASSIGNMENT = 39, "The assignment of replicas to brokers is not possible."
    INVALID_CONFIG = 40, "The configuration is not valid."
    NOT_CONTROLLER = 41, "This broker is not the controller of the cluster."
    INVALID_REQUEST = (
        42, "The request makes no sense: the client is faulty or speaks to the wrong broker.")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The format of the stored messages does not allow this."
    POLICY_VIOLATION = 44, "A policy of the cluster forbids this."
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45, "The broker expected another sequence number from this producer.")
    DUPLICATE_SEQUENCE_NUMBER = 46, "The broker already has a batch with this sequence number."
    INVALID_PRODUCER_EPOCH = 47, "The producer's epoch is old: a newer producer has taken over."
    INVALID_TXN_STATE = 48, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = (
        50, "The transaction time-out is longer than transaction.max.timeout.ms allows.")
    CONCURRENT_TRANSACTIONS = (
        51, "The previous step of this producer's transaction is not finished yet.")
    TRANSACTION_COORDINATOR_FENCED = (
        52, "The marker comes from a transaction coordinator that has been replaced.")
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Transactional Id authorization failed."
    SECURITY_DISABLED = 54, "The broker has no authorizer, so it keeps no access control lists."
    OPERATION_NOT_ATTEMPTED = 55, "Nothing was tried, because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, "The disk failed when the log was read or written."
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "The log-in failed."
    UNKNOWN_PRODUCER_ID = 59, "The partition no longer remembers this producer."
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is being reassigned already."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are switched off."
    DELEGATION_TOKEN_NOT_FOUND = 62, "The broker does not know this delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The delegation token belongs to somebody else."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64, "Delegation tokens are not given out over this kind of connection.")
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65, "The client may not do this with the delegation token.")
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The type of the principal is not supported."
    NON_EMPTY_GROUP = 68, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "There is no group of this id."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The broker has forgotten this fetch session."
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session expected another epoch."
    LISTENER_NOT_FOUND = (
        72, "The partition's leader has no listener of the name through which the client came.")
    TOPIC_DELETION_DISABLED = 73, "Topics cannot be deleted: delete.topic.enable is false."
    FENCED_LEADER_EPOCH = 74, "The client knows an older leader epoch than the broker."
    UNKNOWN_LEADER_EPOCH = 75, "The client knows a newer leader epoch than the broker."
    UNSUPPORTED_COMPRESSION_TYPE = 76, "This version of the request cannot carry this compression."
    STALE_BROKER_EPOCH = 77, "The broker has registered again since, its epoch is old."
    OFFSET_NOT_AVAILABLE = 78, "The new leader does not know its high watermark yet; try again."
    MEMBER_ID_REQUIRED = 79, "The member has to join again, with the id that this answer carries."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred replica cannot lead at the moment."
    GROUP_MAX_SIZE_REACHED = 81, "The group has as many members as the broker allows."
    FENCED_INSTANCE_ID = 82, "Another member has joined with the same group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No replica that may lead the partition is available."
    ELECTION_NOT_NEEDED = 84, "The partition already has the leader that an election would give."
    NO_REASSIGNMENT_IN_PROGRESS = 85, "No reassignment of this partition is under way."
    GROUP_SUBSCRIBED_TO_TOPIC = (
        86, "Offsets cannot be deleted while the group is subscribed to the topic.")
    INVALID_RECORD = 87, "A record breaks a rule of the broker and was refused."
    UNSTABLE_OFFSET_COMMIT = 88, "An open transaction may still change the committed offset."
    THROTTLING_QUOTA_EXCEEDED = 89, "The client has used up its quota for now."
    PRODUCER_FENCED = 90, "A newer producer with the same transactional id has taken over."
    RESOURCE_NOT_FOUND = 91, "The thing asked for does not exist."
    DUPLICATE_RESOURCE = 92, "The request names the same thing twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential is not acceptable."
    INCONSISTENT_VOTER_SET = 94, "The sender takes part in another set of voters than the receiver."
    INVALID_UPDATE_VERSION = 95, "The version of the update is not the one that comes next."
    FEATURE_UPDATE_FAILED = 96, "Features could not be changed."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The principal in a forwarded request cannot be read."
    SNAPSHOT_NOT_FOUND = 98, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This broker does not host a topic of this id."
    DUPLICATE_BROKER_REGISTRATION = 101, "Another broker is registered under this number."
    BROKER_ID_NOT_REGISTERED = 102, "No broker is registered under this number."
    INCONSISTENT_TOPIC_ID = 103, "The topic's id in the log is not the id in the request."
    INCONSISTENT_CLUSTER_ID = 104, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106, "The fetch session changed between topic names and topic ids.")
    INELIGIBLE_REPLICA = 107, "The new ISR names a replica that may not be in it."
    NEW_LEADER_ELECTED = 108, "The change went through, and another broker now leads the partition."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The records at this offset lie in the remote store only."
    FENCED_MEMBER_EPOCH = (
        110, "The member's epoch is not the coordinator's: it must drop what it owns and rejoin.")
    UNRELEASED_INSTANCE_ID = 111, "Another member still holds this group.instance.id."
    UNSUPPORTED_ASSIGNOR = 112, "The group's coordinator offers none of the assignors asked for."
    STALE_MEMBER_EPOCH = 113, "The member's epoch is old: it must learn the new one and try again."
    MISMATCHED_ENDPOINT_TYPE = (
        114, "The request went to a broker instead of a controller, or the reverse.")
    UNSUPPORTED_ENDPOINT_TYPE = 115, "This kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, "No controller has this number."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The client's metrics subscription is out of date."
    TELEMETRY_TOO_LARGE = 118, "The metrics are larger than the broker takes."
    INVALID_REGISTRATION = 119, "The controller refused the registration of the broker."
    TRANSACTION_ABORTABLE = 120, "The transaction cannot go on: abort it and begin anew."
    INVALID_RECORD_STATE = 121, "The record is not in a state that allows this."
    SHARE_SESSION_NOT_FOUND = 122, "The broker has forgotten this share session."
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session expected another epoch."
    FENCED_STATE_EPOCH = 124, "The share coordinator knows a newer epoch of this state."
    INVALID_VOTER_KEY = 125, "The key of the voter is not the receiver's."
    DUPLICATE_VOTER = 126, "The voter is in the set already."
    VOTER_NOT_FOUND = 127, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = (
        129, "The client's metadata is of no use any more: start from bootstrap.servers again.")
    STREAMS_INVALID_TOPOLOGY = 130, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The epoch of the topology is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, "The member runs an older topology than its group."
    SHARE_SESSION_LIMIT_REACHED = 133, "The broker has as many share sessions open as it allows."
    # fmt: on

    @property
    def is_retriable(self) -> bool:
        return self in RETRIABLE


RETRIABLE = frozenset(
    {
        Error.CORRUPT_MESSAGE,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.LEADER_NOT_AVAILABLE,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.REQUEST_TIMED_OUT,
        Error.REPLICA_NOT_AVAILABLE,
        Error.NETWORK_EXCEPTION,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
        Error.NOT_ENOUGH_REPLICAS,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.NOT_CONTROLLER,
        Error.CONCURRENT_TRANSACTIONS,
        Error.KAFKA_STORAGE_ERROR,
        Error.FETCH_SESSION_ID_NOT_FOUND,
        Error.INVALID_FETCH_SESSION_EPOCH,
        Error.LISTENER_NOT_FOUND,
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.OFFSET_NOT_AVAILABLE,
        Error.PREFERRED_LEADER_NOT_AVAILABLE,
        Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        Error.ELECTION_NOT_NEEDED,
        Error.UNSTABLE_OFFSET_COMMIT,
        Error.THROTTLING_QUOTA_EXCEEDED,
        Error.UNKNOWN_TOPIC_ID,
        Error.INCONSISTENT_TOPIC_ID,
        Error.FETCH_SESSION_TOPIC_ID_ERROR,
        Error.SHARE_SESSION_NOT_FOUND,
        Error.INVALID_SHARE_SESSION_EPOCH,
        Error.SHARE_SESSION_LIMIT_REACHED,
    }
)


MESSAGE_LENGTH_MAX = 2_000
"""Characters. A client's own words may be in it, and old answers have room for 32 KiB."""


class ApiError(Exception):
    """A refusal that is part of the protocol: the code, and a sentence for people."""

    def __init__(self, error: Error, message: str = "") -> None:
        if len(message) > MESSAGE_LENGTH_MAX:
            message = f"{message[:MESSAGE_LENGTH_MAX]}..."
        super().__init__(message or error.sentence)
        self.error = error
        self.message = message
        self.throttle_ms = 0
        """How long the client that is told so has to wait, if it has a quota."""

    def kept(self) -> Self:
        """As a value among others: it forgets the frames that it came through. One of them holds
        these values, and such a circle stays until Python looks for garbage, or for good."""
        self.__traceback__ = None
        return self
