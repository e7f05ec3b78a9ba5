"""Diagnosis of the cluster: controller, leaders, replicas, internal topics, disks, clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from moldau.diagnosis.evidence import (
    Evidence,
    Finding,
    Limits,
    PartitionSight,
    Severity,
    TopicSight,
    duration,
    few,
    plural,
)
from moldau.model.names import TopicPartition

INTERNAL = {
    "__consumer_offsets": ("offsets.topic.replication.factor", "groups"),
    "__transaction_state": ("transaction.state.log.replication.factor", "transactions"),
}
COPIES = 3
"""So many survive the loss of one broker while another is being restarted."""


def diagnose_cluster(seen: Evidence, limits: Limits) -> Iterator[Finding]:
    if seen.cluster is None:
        return
    if seen.cluster.controller_id < 0:
        yield Finding(
            Severity.ERROR,
            "no-controller",
            "the cluster has no controller",
            "No broker is the controller: one is being elected, or the brokers cannot reach"
            " ZooKeeper or the controllers' quorum. Topics cannot be created, and no leader is"
            " elected when a broker fails.",
            "Look at the brokers' controller logs, and at ZooKeeper; ask again in a minute.",
            seen.command("cluster list-endpoints"),
        )
    for topic in seen.topics:
        yield from diagnose_topic(seen, topic)
    yield from diagnose_internal(seen)
    yield from diagnose_disks(seen, limits)
    yield from diagnose_clocks(seen, limits)


def diagnose_topic(seen: Evidence, topic: TopicSight) -> Iterator[Finding]:
    alive = set() if seen.cluster is None else {broker.id for broker in seen.cluster.brokers}
    yield from leaderless(seen, topic, alive)
    yield from too_few_in_sync(seen, topic)
    behind = which(topic, lambda each: each.leader >= 0 and len(each.isr) < len(each.replicas))
    if behind:
        missing = sorted({b for each in behind for b in each.replicas if b not in each.isr})
        gone = [broker for broker in missing if broker not in alive]
        why = f"Brokers {few(missing)} hold replicas that are not in sync"
        why += (
            f"; {few(gone)} not part of the cluster now, so probably down."
            if gone
            else (": they run and do not keep up (disk, network, replica.lag.time.max.ms).")
        )
        yield Finding(
            Severity.WARNING,
            "under-replicated",
            f"{at(topic, behind)} under-replicated",
            why,
            f"Start brokers {few(gone)} again." if gone else "Look at the load of those brokers.",
            seen.command(f"topics --describe --topic {topic.name} --under-replicated-partitions"),
        )
    moved = which(
        topic, lambda each: len(each.replicas) > 1 and 0 <= each.leader != each.replicas[0]
    )
    if moved:
        yield Finding(
            Severity.NOTE,
            "not-preferred-leader",
            f"{at(topic, moved)} not led by the preferred replica",
            "A broker was away, and leadership has not gone back, so the load is uneven.",
            "Let the preferred replicas lead again.",
            seen.command("leader-election --election-type preferred --all-topic-partitions"),
        )


def leaderless(seen: Evidence, topic: TopicSight, alive: set[int]) -> Iterator[Finding]:
    without = which(topic, lambda each: each.leader < 0)
    if not without:
        return
    holders = sorted({broker for each in without for broker in each.replicas})
    down = [broker for broker in holders if broker not in alive]
    last = sorted({broker for each in without for broker in each.isr})
    if down:
        cause = (
            f"The replicas are on brokers {few(holders)}, and of those {few(down)} not part of the"
            f" cluster; the last ones in sync were {few(last) or 'none'}."
        )
        fix = f"Start broker {few(last or down)}; if it is lost, let another replica lead and lose"
        fix += " what only it had (--election-type unclean)."
    else:
        cause = (
            f"Brokers {few(holders)} run, and none of them may lead: their log directory is"
            " offline, or the controller has not elected one."
        )
        fix = "Look at the brokers' log directories and the controller's log."
    yield Finding(
        Severity.ERROR,
        "no-leader",
        f"{at(topic, without)} without a leader (leader -1), so nobody can read or write there",
        cause,
        fix,
        seen.command(f"topics --describe --topic {topic.name} --unavailable-partitions"),
    )


def too_few_in_sync(seen: Evidence, topic: TopicSight) -> Iterator[Finding]:
    wanted = seen.min_isr.get(topic.name, 1)
    # Brokers ask for no more than there are replicas.
    few_left = which(
        topic, lambda each: each.leader >= 0 and len(each.isr) < min(wanted, len(each.replicas))
    )
    if few_left:
        missing = sorted({b for each in few_left for b in each.replicas if b not in each.isr})
        yield Finding(
            Severity.ERROR,
            "under-min-isr",
            f"{at(topic, few_left)} below min.insync.replicas={wanted}, so acks=all is refused"
            " (NotEnoughReplicasException)",
            f"Brokers {few(missing)} are down or do not keep up.",
            f"Bring brokers {few(missing)} back; lowering min.insync.replicas trades safety for"
            " service.",
            seen.command(f"topics --describe --topic {topic.name} --under-min-isr-partitions"),
        )
    thin = which(topic, lambda each: wanted > len(each.replicas))
    if thin and not topic.is_internal:
        yield Finding(
            Severity.NOTE,
            "min-isr-above-replicas",
            f"{at(topic, thin)} with min.insync.replicas={wanted} and fewer replicas",
            "The setting promises more copies than there are. Older brokers refuse acks=all here.",
            "Add replicas, or lower the setting.",
            seen.command(
                f"configs --alter --topic {topic.name} --add-config min.insync.replicas=1"
            ),
        )


def diagnose_internal(seen: Evidence) -> Iterator[Finding]:
    assert seen.cluster is not None
    brokers_count = len(seen.cluster.brokers)
    topics = {topic.name: topic for topic in seen.topics}
    for name, (setting, users) in INTERNAL.items():
        wanted = int(seen.broker_settings.get(setting) or 1)
        topic = topics.get(name)
        if topic is None:
            if wanted > brokers_count > 0:
                yield Finding(
                    Severity.NOTE,
                    "internal-topic-too-wide",
                    f"{name} does not exist yet, and {setting}={wanted} asks for more replicas than"
                    f" there are brokers ({brokers_count})",
                    f"Moldau makes it with fewer; Apache Kafka refuses, and then {users} wait for"
                    " their coordinator for ever (COORDINATOR_NOT_AVAILABLE).",
                    f"Start more brokers, or set {setting}={brokers_count}.",
                    f"moldau server-start server.properties --override {setting}={brokers_count}",
                )
            continue
        copies = min((len(each.replicas) for each in topic.partitions), default=COPIES)
        if copies < min(COPIES, brokers_count):
            yield Finding(
                Severity.WARNING,
                "internal-topic-too-thin",
                f"{name} has {plural(copies, 'replica')} in a cluster of {brokers_count} brokers",
                f"It was made when there were fewer brokers or with {setting}={copies}; while the"
                f" broker that holds a partition is down, its {users} stand still.",
                f"Move it to {min(COPIES, brokers_count)} replicas.",
                seen.command("reassign-partitions --execute --reassignment-json-file plan.json"),
            )


def diagnose_disks(seen: Evidence, limits: Limits) -> Iterator[Finding]:
    for row in seen.log_dirs:
        show = seen.command(f"log-dirs --describe --broker-list {row.broker_id}")
        if row.error:
            yield Finding(
                Severity.ERROR,
                "log-dir-offline",
                f"broker {row.broker_id}: the log directory {row.path} is offline",
                f"The broker met an error there and stopped using it: {row.error}",
                "Repair the disk or its permissions, then restart the broker.",
                show,
            )
        elif row.total_bytes > 0 and 0 <= row.usable_bytes < limits.disk_free * row.total_bytes:
            share = 100 * row.usable_bytes / row.total_bytes
            yield Finding(
                Severity.WARNING,
                "disk-nearly-full",
                f"broker {row.broker_id}: the disk of {row.path} has {share:.1f} % left",
                "A broker whose disk is full takes the log directory offline.",
                "Shorten retention.ms or retention.bytes of the largest topics, or add room.",
                show,
            )


def diagnose_clocks(seen: Evidence, limits: Limits) -> Iterator[Finding]:
    clock = seen.clock
    if clock is not None and abs(clock.ahead_ms) - clock.uncertain_ms > limits.skew_ms:
        where = "ahead of" if clock.ahead_ms > 0 else "behind"
        yield Finding(
            Severity.WARNING,
            "clock-skew-broker",
            f"the clock of node {clock.node_id} is {duration(clock.ahead_ms)} {where} this one",
            "One of the two clocks is wrong: retention, timestamps and time-outs that span machines"
            f" go by them. Measured to within {clock.uncertain_ms} ms.",
            "Synchronize the machines' clocks (NTP, chrony).",
            "timedatectl status",
        )
    for topic in seen.topics:
        ahead = {
            each.partition: log.timestamp_max - seen.now_ms
            for each in topic.partitions
            if (log := seen.logs.get(TopicPartition(topic.name, each.partition))) is not None
            and log.timestamp_max - seen.now_ms > limits.skew_ms
        }
        if not ahead or topic.is_internal:
            continue
        by_broker = seen.timestamp_types.get(topic.name) == "LogAppendTime"
        whose = "a broker's" if by_broker else "a producer's"
        yield Finding(
            Severity.WARNING,
            "clock-skew-records",
            f"{topic.name} has records from the future, {duration(max(ahead.values()))} ahead"
            f" (partitions {few(ahead)})",
            f"Records carry {whose} time, and that clock is ahead, or the sender sets timestamps"
            " in another unit. Retention keeps such records too long.",
            "Synchronize that machine's clock (NTP, chrony), or let brokers stamp the records.",
            seen.command(
                f"configs --alter --topic {topic.name}"
                " --add-config message.timestamp.type=LogAppendTime"
            ),
        )


def which(topic: TopicSight, test: Callable[[PartitionSight], bool]) -> list[PartitionSight]:
    return [each for each in topic.partitions if test(each)]


def at(topic: TopicSight, partitions: list[PartitionSight]) -> str:
    """The start of a sentence: which partitions, with the verb."""
    if len(partitions) == 1:
        return f"{topic.name}-{partitions[0].partition} is"
    return f"{topic.name}: partitions {few(each.partition for each in partitions)} are"
