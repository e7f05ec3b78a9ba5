"""No error is lost in a result: each call that asks about several things, with one that must fail.

Against a real broker, Moldau's or Apache Kafka's. The call raises what went wrong; asked for
results it raises nothing, and `errors` has it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau import Admin, TopicPartition, aio, errors
from moldau.admin import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    ConfigResource,
    ElectionType,
    OffsetSpec,
    TopicPartitionReplica,
)

Call = Callable[..., Any]
NOWHERE = TopicPartition("not-there", 0)
TOPIC = ConfigResource.topic("not-there")
REPLICA = TopicPartitionReplica("not-there", 0, 0)
ACL = Acl("User:nobody", AclResourceType.TOPIC, "not-there", AclOperation.READ)
ANY_ACL = AclFilter("User:nobody")

FAILING: dict[str, tuple[tuple[Any, ...], Any]] = {
    "alter_client_quotas": (({(("user", "u"),): {"no.such.quota": 1.0}},), (("user", "u"),)),
    "alter_configs": (({TOPIC: {"retention.ms": "1"}},), TOPIC),
    "alter_group_offsets": (("g", {NOWHERE: 1}), NOWHERE),
    "alter_partition_reassignments": (({NOWHERE: [0]},), NOWHERE),
    "alter_replica_log_dirs": (({REPLICA: "/not-there"},), REPLICA),
    "create_acls": (([ACL],), ACL),
    "create_partitions": (({"not-there": 3},), "not-there"),
    "create_topics": ((["not/allowed"],), "not/allowed"),
    "delete_acls": (([ANY_ACL],), ANY_ACL),
    "delete_group_offsets": (("not-there", [NOWHERE]), NOWHERE),
    "delete_groups": ((["not-there"],), "not-there"),
    "delete_records": (({NOWHERE: 1},), NOWHERE),
    "delete_topics": ((["not-there"],), "not-there"),
    "describe_configs": (([TOPIC],), TOPIC),
    "describe_groups": ((["not-there"],), "not-there"),
    "describe_log_dirs": (([77],), 77),
    "describe_producers": (([NOWHERE],), NOWHERE),
    "describe_topics": ((["not-there"],), "not-there"),
    "describe_transactions": ((["not-there"],), "not-there"),
    "describe_user_scram_credentials": ((["not-there"],), "not-there"),
    "elect_leaders": ((ElectionType.PREFERRED, [NOWHERE]), NOWHERE),
    "fence_producers": (([""],), ""),
    "incremental_alter_configs": (({TOPIC: {"retention.ms": "1"}},), TOPIC),
    "list_offsets": (({NOWHERE: OffsetSpec.LATEST},), NOWHERE),
    "remove_members_from_group": (("not-there", ["nobody"]), "nobody"),
    "update_features": (({"no.such.feature": 1},), "no.such.feature"),
}
"""By name of the call: what it is asked, and what the error stands at."""
ALWAYS_ANSWERED = {"list_group_offsets"}
"""A group that nobody knows has no offsets, which is no error: see `test_client_admin.py`."""
TIMEOUT = 3.0
"""Some wait for a topic or a broker to appear, until their time is up: also an error."""


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap, client_id="tests") as admin:
        yield admin


@pytest.mark.parametrize("kind", [Admin, aio.Admin])
def test_every_call_with_results_is_in_the_table(kind: type) -> None:
    calls = inspect.getmembers(kind, inspect.isfunction)
    with_results = {
        name for name, call in calls if "Results[" in str(inspect.signature(call).return_annotation)
    }
    assert with_results == {*FAILING, *ALWAYS_ANSWERED}
    for name in with_results:
        raising = inspect.signature(getattr(kind, name)).parameters["raise_errors"]
        assert raising.default is True


@pytest.mark.parametrize("name", FAILING)
def test_an_error_is_raised_or_kept(name: str, admin: Admin) -> None:
    arguments, key = FAILING[name]
    call: Call = getattr(admin, name)
    found = call(*arguments, raise_errors=False, timeout=TIMEOUT)
    assert key not in found
    error = found.errors[key]
    assert isinstance(error, errors.KafkaError)
    assert error.message
    assert found.outcomes[key] is error
    with pytest.raises(type(error)):
        found.check()
    with pytest.raises(type(error)):
        call(*arguments, timeout=TIMEOUT)
