"""What a message may hold is counted while it is read, and known before it is written."""

from __future__ import annotations

import pytest

from moldau.wire.answer_walk import errors_unless_long
from moldau.wire.decoding import ENTRIES_OF_MANY_MAX
from moldau.wire.messages.groups import LeaveGroupRequest, MemberIdentity
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from moldau.wire.primitives import DecodeError, TooManyEntries


def test_a_request_may_have_so_many_entries_and_not_one_more() -> None:
    rows = [MetadataRequestTopic(name="")] * ENTRIES_OF_MANY_MAX
    assert len(
        MetadataRequest.decode(MetadataRequest(topics=rows).encode(4), 4).topics or ()
    ) == len(rows)
    rows.append(rows[0])
    with pytest.raises(DecodeError, match="more than 1000000 entries"):
        MetadataRequest.decode(MetadataRequest(topics=rows).encode(4), 4)


def test_entries_of_all_arrays_count_together() -> None:
    topics = [TopicRequest(name="t", partition_indexes=[0] * 250)] * 100
    with pytest.raises(DecodeError, match="more than 25000 entries"):
        DescribeProducersRequest.decode(DescribeProducersRequest(topics=topics).encode(0), 0)


def test_members_of_a_group_are_fewer_than_partitions_of_a_broker() -> None:
    members = [MemberIdentity(member_id="m")] * 5_001
    with pytest.raises(DecodeError, match="more than 5000 entries"):
        LeaveGroupRequest.decode(LeaveGroupRequest(members=members).encode(4), 4)


def test_a_reader_may_want_less() -> None:
    body = MetadataRequest(topics=[MetadataRequestTopic(name="")] * 11).encode(4)
    assert len(MetadataRequest.decode_short(body, 4, 0, 11).topics or ()) == 11
    with pytest.raises(TooManyEntries):
        MetadataRequest.decode_short(body, 4, 0, 10)


@pytest.mark.parametrize("topics, partitions, rows", [(200, 0, 0), (1, 200, 0), (1, 1, 200)])
def test_a_message_is_long_wherever_its_rows_are(topics: int, partitions: int, rows: int) -> None:
    partition = PartitionResponse(active_producers=[ProducerState()] * rows)
    topic = TopicResponse(name="t", partitions=[partition] * partitions)
    response = DescribeProducersResponse(topics=[topic] * topics)
    assert errors_unless_long(response, 199) is None
    assert errors_unless_long(response, 202) == []
