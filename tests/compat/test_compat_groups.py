"""Consumer groups with every client: who reads what, what is committed, who is told of a change.

Members poll on their own while the test writes. With commits after every poll a group reads
everything at least once, however often members come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.compat.clients.catalogue import GROUPS, NAMES, Clients
from tests.compat.clients.group_port import (
    COOPERATIVE,
    GroupClient,
    Member,
    Subscription,
    assert_one_owner_at_a_time,
    owned,
    shares,
    values,
)
from tests.compat.clients.port import Client, Record, Refused
from tests.compat.records import START_MS
from tests.compat.waiting import eventually

PARTITIONS = 6
SECONDS_MAX = 45
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 68, 69

NewName = Callable[[str], str]
Join = Callable[..., Member]


@pytest.fixture(params=NAMES)
def groups(request: pytest.FixtureRequest, clients: Clients) -> GroupClient:
    return GROUPS[request.param](clients[request.param])


@pytest.fixture
def client(groups: GroupClient) -> Client:
    return groups.client


@pytest.fixture
def topic(client: Client, new_name: NewName) -> str:
    name = new_name("groups")
    client.create_topic(name, partitions=PARTITIONS, configs={})
    return name


@pytest.fixture
def group(new_name: NewName) -> str:
    return new_name("group")


@pytest.fixture
def join(groups: GroupClient, group: str, topic: str) -> Iterator[Join]:
    """Members of the group, all of them stopped when the test ends, also if it fails."""
    members: list[Member] = []

    def joined(**wanted: object) -> Member:
        if "pattern" not in wanted:
            wanted["topics"] = (topic,)
        member = groups.join(Subscription(group, **wanted))  # type: ignore[arg-type]
        members.append(member)
        return member

    yield joined
    for member in members:
        member.stop()


class Load:
    """Writes numbered records to every partition, some more whenever it is asked."""

    def __init__(self, client: Client, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.values: list[bytes] = []

    def write(self, each: int = 5) -> None:
        first = len(self.values)
        count = each * PARTITIONS
        values = [b"%d" % number for number in range(first, first + count)]
        records = [
            Record(None, value, (), START_MS, index % PARTITIONS)
            for index, value in enumerate(values)
        ]
        self.client.produce(self.topic, records)
        self.values += values

    def until(self, check: Callable[[], bool]) -> None:
        """Goes on writing until it holds."""

        def written_and_checked() -> bool:
            self.write()
            return check()

        eventually(written_and_checked, SECONDS_MAX)


@pytest.fixture
def load(client: Client, topic: str) -> Load:
    return Load(client, topic)


def settled(check: Callable[[], bool]) -> None:
    eventually(check, SECONDS_MAX)


def offsets(member: Member, partition: int) -> list[int]:
    return [read.offset for read in member.reads() if read.partition == partition]


def test_members_join_and_leave_under_load_and_nothing_is_lost(
    groups: GroupClient, join: Join, load: Load, group: str, topic: str
) -> None:
    first = join(commits=True)
    load.until(lambda: shares([first]) == [6])
    second = join(commits=True)
    load.until(lambda: shares([first, second]) == [3, 3])
    third = join(commits=True)
    load.until(lambda: shares([first, second, third]) == [2, 2, 2])
    first.stop()
    load.until(lambda: shares([second, third]) == [3, 3])
    fourth = join(commits=True)
    load.until(lambda: shares([second, third, fourth]) == [2, 2, 2])
    second.stop()
    third.stop()
    load.until(lambda: shares([fourth]) == [6])

    everyone = [first, second, third, fourth]
    settled(lambda: set(values(everyone)) == set(load.values))
    ends = {partition: len(load.values) // PARTITIONS for partition in range(PARTITIONS)}
    settled(lambda: groups.committed(group, topic) == ends)
    assert_one_owner_at_a_time(everyone)


def test_a_static_member_restarts_without_a_rebalance(
    groups: GroupClient, join: Join, load: Load
) -> None:
    if not groups.has_static_members:
        pytest.skip("the library has no static members")
    one, other = join(instance="one", commits=True), join(instance="other", commits=True)
    load.write()
    settled(
        lambda: shares([one, other]) == [3, 3] and set(values([one, other])) == set(load.values)
    )
    places, changes_of_other = owned(one), other.changes()

    one.stop()
    back = join(instance="one", commits=True)
    load.until(lambda: owned(back) == places)
    settled(lambda: set(values([one, other, back])) == set(load.values))

    assert other.changes() == changes_of_other
    assert not set(values([one])) & set(values([back]))


def test_a_cooperative_member_keeps_what_it_need_not_give_away(
    groups: GroupClient, join: Join, load: Load
) -> None:
    if not groups.is_cooperative:
        pytest.skip("the library has no cooperative assignor")
    first = join(assignor=COOPERATIVE, commits=True)
    load.until(lambda: shares([first]) == [6])
    second = join(assignor=COOPERATIVE, commits=True)
    load.until(lambda: shares([first, second]) == [3, 3])
    kept = owned(first)
    given_back = [one for one in first.changes() if one.kind == "revoked" and one.places]
    second.stop()
    load.until(lambda: shares([first]) == [6])
    settled(lambda: set(values([first, second])) == set(load.values))

    assert len(given_back) == 1
    assert not given_back[0].places & kept
    assert_one_owner_at_a_time([first, second])


@pytest.mark.parametrize("wait", [True, False], ids=["sync", "async"])
def test_the_next_member_resumes_at_the_committed_offsets(
    wait: bool, groups: GroupClient, join: Join, load: Load, group: str, topic: str
) -> None:
    load.write(10)
    first = join()
    settled(lambda: set(values([first])) == set(load.values))

    first.commit(wait=wait)
    settled(lambda: groups.committed(group, topic) == dict.fromkeys(range(PARTITIONS), 10))
    first.stop()
    load.write(3)
    second = join()
    settled(lambda: len(second.reads()) >= 3 * PARTITIONS)

    assert set(values([second])) == set(load.values[10 * PARTITIONS :])
    assert offsets(second, 0) == [10, 11, 12]


def test_what_was_not_committed_is_read_again(join: Join, load: Load) -> None:
    load.write(4)
    first = join()
    settled(lambda: set(values([first])) == set(load.values))
    first.stop()

    second = join()

    settled(lambda: set(values([second])) == set(load.values))


def test_seeking_reads_again_from_that_offset(join: Join, load: Load, topic: str) -> None:
    load.write(10)
    member = join()
    settled(lambda: set(values([member])) == set(load.values))

    member.seek(topic, 2, 4)

    settled(lambda: len(offsets(member, 2)) >= 16)
    assert offsets(member, 2) == [*range(10), *range(4, 10)]


def test_a_pattern_subscribes_to_what_matches_now_and_later(
    groups: GroupClient, join: Join, client: Client, new_name: NewName
) -> None:
    prefix = new_name("pattern")
    topics = [f"{prefix}-{number}" for number in range(2 if groups.notices_new_topics else 1)]

    def create(topic: str) -> None:
        client.create_topic(topic, partitions=1, configs={})
        client.produce(topic, [Record(None, topic.encode(), (), START_MS)])

    create(topics[0])
    member = join(pattern=f"^{prefix}-.*")
    settled(lambda: {read.topic for read in member.reads()} == set(topics[:1]))
    for later in topics[1:]:
        create(later)

    settled(lambda: {read.topic for read in member.reads()} == set(topics))
    assert owned(member) == {(topic, 0) for topic in topics}


def test_a_group_is_listed_described_reset_and_deleted(
    groups: GroupClient, join: Join, load: Load, group: str, topic: str
) -> None:
    load.write(2)
    member = join(commits=True)
    settled(lambda: set(values([member])) == set(load.values))
    settled(lambda: groups.describe(group).state == "stable")
    (described,) = groups.describe(group).members
    assert described.places == {(topic, index) for index in range(PARTITIONS)}
    assert group in described.client_id
    if groups.deletes_groups:
        with pytest.raises(Refused) as refused:
            groups.delete(group)
        assert refused.value.code == NON_EMPTY_GROUP
    assert group in groups.groups()

    member.stop()
    settled(lambda: groups.describe(group).state == "empty")
    groups.reset(group, topic, 1, 1)
    assert groups.committed(group, topic)[1] == 1
    again = join(commits=True)
    settled(lambda: offsets(again, 1) == [1])
    again.stop()

    if groups.deletes_groups:
        settled(lambda: groups.describe(group).state == "empty")
        groups.delete(group)
        assert group not in groups.groups()
        with pytest.raises(Refused) as refused:
            groups.delete(group)
        assert refused.value.code == GROUP_ID_NOT_FOUND
