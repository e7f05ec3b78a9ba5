"""The throttles that `reassign-partitions` sets for a move, and lifts when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.flags import Given
from moldau.cli.output import Output
from moldau.cli.topics.reassignment_plans import Plan

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin

BROKER_THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
TOPIC_THROTTLES = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
THROTTLED = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the"
    " throttle is removed."
)


def throttle(admin: Admin, given: Given, out: Output, wanted: Plan, current: Plan) -> None:
    from moldau.client.admin.admin_results import ConfigResource

    rate = str(given.number("throttle"))
    out.warn(THROTTLED)
    brokers = {broker for plan in (wanted, current) for row in plan.values() for broker in row}
    leaders, followers = BROKER_THROTTLES[:2]
    changes: dict[Any, dict[str, str | None]] = {
        ConfigResource.broker(broker): {leaders: rate, followers: rate} for broker in brokers
    }
    for topic, (leading, following) in throttled_topics(wanted, current).items():
        changes[ConfigResource.topic(topic)] = {
            TOPIC_THROTTLES[0]: leading,
            TOPIC_THROTTLES[1]: following,
        }
    admin.incremental_alter_configs(changes).check()
    out.line(f"The inter-broker throttle limit was set to {rate} B/s")


def throttle_moves(admin: Admin, given: Given, out: Output, brokers: set[int]) -> None:
    from moldau.client.admin.admin_results import ConfigResource

    rate = str(given.number("replica-alter-log-dirs-throttle"))
    changes: dict[Any, dict[str, str | None]] = {
        ConfigResource.broker(broker): {BROKER_THROTTLES[2]: rate} for broker in brokers
    }
    admin.incremental_alter_configs(changes).check()
    out.line(f"The replica-alter-dir throttle limit was set to {rate} B/s")


def clear_throttles(admin: Admin, out: Output, partitions: Plan) -> None:
    from moldau.client.admin.admin_results import ConfigResource

    brokers = sorted(node.id for node in admin.describe_cluster().nodes)
    topics = sorted({tp.topic for tp in partitions})
    out.line(
        f"Clearing broker-level throttles on broker{'s' * (len(brokers) > 1)} {commas(brokers)}"
    )
    out.line(f"Clearing topic-level throttles on topic{'s' * (len(topics) > 1)} {','.join(topics)}")
    nothing_broker: dict[str, str | None] = dict.fromkeys(BROKER_THROTTLES)
    nothing_topic: dict[str, str | None] = dict.fromkeys(TOPIC_THROTTLES)
    changes: dict[Any, dict[str, str | None]] = {
        ConfigResource.broker(broker): nothing_broker for broker in brokers
    }
    changes |= {ConfigResource.topic(topic): nothing_topic for topic in topics}
    admin.incremental_alter_configs(changes).check()


def commas(numbers: Sequence[int]) -> str:
    return ",".join(str(number) for number in numbers)


def throttled_topics(wanted: Plan, current: Plan) -> dict[str, tuple[str, str]]:
    """Per topic the replicas that send and those that receive, as `partition:broker` lists."""
    leading: dict[str, set[str]] = {}
    following: dict[str, set[str]] = {}
    for tp, replicas in wanted.items():
        now = current[tp]
        leading.setdefault(tp.topic, set()).update(f"{tp.partition}:{b}" for b in now)
        new = [b for b in replicas if b not in now]
        following.setdefault(tp.topic, set()).update(f"{tp.partition}:{b}" for b in new)
    return {
        topic: (",".join(sorted(leading[topic])), ",".join(sorted(following[topic])))
        for topic in leading
    }
