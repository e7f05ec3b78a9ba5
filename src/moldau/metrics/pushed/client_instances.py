"""The clients that push metrics, as a broker knows them (KIP-714): who may push what, and when.

A state machine without I/O: it is told the time and refuses with the protocol's errors, as Apache
Kafka does. It remembers a bounded number of clients, and none that has been silent for long.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping

from moldau.metrics.pushed.client_subscriptions import Subscription, Wanted, wanted_of
from moldau.model.errors import ApiError, Error

INSTANCES_MAX = 16_384
SILENT_MS_MIN = 60_000
SILENT_INTERVALS = 3
NO_ID = bytes(16)
RESERVED_IDS = (NO_ID, bytes(15) + b"\x01")
COMPRESSIONS = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: what clients are told, the best first."""
ASKS_AGAIN = (Error.UNKNOWN_SUBSCRIPTION_ID, Error.UNSUPPORTED_COMPRESSION_TYPE)
"""After these a client may ask at once what is wanted of it."""


class ClientInstance:
    """One client. The times are of the monotonic clock."""

    __slots__ = (
        "asked_ms",
        "client",
        "instance_id",
        "is_gone",
        "is_terminating",
        "last_error",
        "pushed_ms",
        "seen_ms",
        "version",
        "wanted",
    )

    def __init__(
        self,
        instance_id: bytes,
        client: Mapping[str, str],
        wanted: Wanted,
        version: int,
        is_gone: Callable[[], bool],
    ) -> None:
        self.instance_id = instance_id
        self.client = client
        """What it is called, by the keys of subscriptions and `principal`."""
        self.wanted = wanted
        self.version = version
        self.is_gone = is_gone
        """Whether the connection that it came by is closed."""
        self.asked_ms: int | None = None
        self.pushed_ms: int | None = None
        self.seen_ms = 0
        self.is_terminating = False
        self.last_error = Error.NONE

    @property
    def keep_ms(self) -> int:
        return max(SILENT_MS_MIN, SILENT_INTERVALS * self.wanted.interval_ms)


class ClientInstances:
    def __init__(self, telemetry_bytes_max: int, new_id: Callable[[], bytes]) -> None:
        self.bytes_max = telemetry_bytes_max
        self.throttled = 0
        """How many requests came too early."""
        self.unknown_subscriptions = 0
        self._new_id = new_id
        self._subscriptions: Collection[Subscription] = ()
        self._version = 0
        self._instances: OrderedDict[bytes, ClientInstance] = OrderedDict()
        """The one that was silent longest comes first."""

    def __len__(self) -> int:
        return len(self._instances)

    def is_known(self, instance_id: bytes) -> bool:
        return instance_id in self._instances

    def subscribe(self, subscriptions: Collection[Subscription]) -> None:
        """From now on these are all."""
        self._subscriptions = subscriptions
        self._version += 1

    def ask(
        self,
        instance_id: bytes,
        client: Mapping[str, str],
        is_gone: Callable[[], bool],
        now_ms: int,
    ) -> ClientInstance:
        """What is wanted of this client. ApiError if it asks too often."""
        if instance_id == NO_ID:
            instance_id = self._new_id()
        instance = self._instance(instance_id, client, is_gone, now_ms)
        times = [each for each in (instance.asked_ms, instance.pushed_ms) if each is not None]
        if not times or now_ms - max(times) >= instance.wanted.interval_ms:
            instance.asked_ms = now_ms
        elif instance.last_error not in ASKS_AGAIN:
            raise self._too_early()
        instance.last_error = Error.NONE
        return instance

    def push(
        self,
        instance_id: bytes,
        client: Mapping[str, str],
        is_gone: Callable[[], bool],
        now_ms: int,
        *,
        subscription: int,
        is_terminating: bool,
        compression: int,
        size_bytes: int,
    ) -> ClientInstance:
        """Who pushes. ApiError if it must not, or not this."""
        if instance_id in RESERVED_IDS:
            raise ApiError(Error.INVALID_REQUEST, "the id of the client is none")
        instance = self._instance(instance_id, client, is_gone, now_ms)
        try:
            self._check(instance, now_ms, subscription, is_terminating, compression, size_bytes)
        except ApiError as refusal:
            instance.last_error = refusal.error
            raise
        finally:
            instance.is_terminating = is_terminating
        instance.last_error = Error.NONE
        return instance

    def _check(
        self,
        instance: ClientInstance,
        now_ms: int,
        subscription: int,
        is_terminating: bool,
        compression: int,
        size_bytes: int,
    ) -> None:
        if instance.is_terminating:
            raise ApiError(Error.INVALID_REQUEST, "the client has said that it ends")
        asked_ms, pushed_ms = instance.asked_ms, instance.pushed_ms
        # What follows the question may come at once: clients vary their interval by a half.
        is_due = asked_ms is not None and (pushed_ms is None or asked_ms > pushed_ms)
        if is_due or pushed_ms is None or now_ms - pushed_ms >= instance.wanted.interval_ms:
            instance.pushed_ms = now_ms
        elif not is_terminating:
            raise self._too_early()
        if subscription != instance.wanted.number:
            self.unknown_subscriptions += 1
            raise ApiError(
                Error.UNKNOWN_SUBSCRIPTION_ID, f"{subscription} is not {instance.wanted.number}"
            )
        if compression != 0 and compression not in COMPRESSIONS:
            raise ApiError(
                Error.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression {compression}"
            )
        if size_bytes > self.bytes_max:
            raise ApiError(
                Error.TELEMETRY_TOO_LARGE, f"{size_bytes} bytes are more than {self.bytes_max}"
            )

    def failed(self, instance: ClientInstance) -> None:
        """What it pushed could not be read or passed on."""
        instance.last_error = Error.INVALID_RECORD

    def forget_silent(self, now_ms: int) -> list[bytes]:
        """The ids of those that were silent too long; they are gone now."""
        gone = [
            instance_id
            for instance_id, each in self._instances.items()
            if now_ms - each.seen_ms >= each.keep_ms
        ]
        for instance_id in gone:
            del self._instances[instance_id]
        return gone

    def _too_early(self) -> ApiError:
        self.throttled += 1
        return ApiError(Error.THROTTLING_QUOTA_EXCEEDED, "the interval is not over yet")

    def _instance(
        self,
        instance_id: bytes,
        client: Mapping[str, str],
        is_gone: Callable[[], bool],
        now_ms: int,
    ) -> ClientInstance:
        instance = self._instances.get(instance_id)
        # A client that had to connect anew is met anew, as in Apache Kafka.
        if instance is None or instance.is_gone():
            wanted = wanted_of(client, self._subscriptions, instance_id)
            instance = ClientInstance(instance_id, client, wanted, self._version, is_gone)
            self._instances[instance_id] = instance
            if len(self._instances) > INSTANCES_MAX:
                self._instances.popitem(last=False)
        elif instance.version < self._version:
            wanted = wanted_of(instance.client, self._subscriptions, instance_id)
            instance = ClientInstance(instance_id, instance.client, wanted, self._version, is_gone)
            self._instances[instance_id] = instance
        instance.seen_ms = now_ms
        self._instances.move_to_end(instance_id)
        return instance
