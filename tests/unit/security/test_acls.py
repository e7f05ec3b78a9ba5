"""Access control lists: the decision, filters, bit fields, and what may be created."""

from __future__ import annotations

import pytest

from moldau.security.acl.acl_filters import AclFilter
from moldau.security.acl.acl_model import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    fault_of,
)
from moldau.security.acl.acl_store import Acls
from moldau.security.acl.authorizer import Authorizer, audit_line, bit_field

TOPIC = ResourceType.TOPIC
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def acls(*rows: tuple[str, str, Operation, Permission]) -> Acls:
    """Rows of (topic, with a closing + if it is a prefix; principal[@host]; operation; verdict)."""
    found: dict[ResourcePattern, set[Entry]] = {}
    for topic, who, operation, permission in rows:
        pattern = PatternType.PREFIXED if topic.endswith("+") else PatternType.LITERAL
        principal, _, host = who.partition("@")
        entry = Entry(f"User:{principal}", host or "*", operation, permission)
        found.setdefault(ResourcePattern(TOPIC, topic.rstrip("+"), pattern), set()).add(entry)
    return Acls({key: frozenset(entries) for key, entries in found.items()})


def may(lists: Acls, operation: Operation, topic: str = "t", who: str = "a", **kw: bool) -> bool:
    authorizer = Authorizer(lists, frozenset({"User:root"}), **kw)
    return authorizer.allows(f"User:{who}", "1.1.1.1", operation, TOPIC, topic)


def test_nothing_is_allowed_without_an_entry() -> None:
    assert not may(Acls(), READ)
    assert may(Acls(), READ, is_open_without_acls=True)
    assert may(Acls(), READ, who="root")


def test_an_entry_of_somebody_else_closes_a_topic_that_was_open() -> None:
    lists = acls(("t", "b", READ, ALLOW))
    assert not may(lists, READ, is_open_without_acls=True)
    assert may(lists, READ, "other", is_open_without_acls=True)


@pytest.mark.parametrize("topic", ["t", "*", "t+"])
@pytest.mark.parametrize("who", ["a", "*", "a@1.1.1.1"])
@pytest.mark.parametrize("operation", [READ, Operation.ALL])
def test_names_prefixes_wildcards_and_hosts_match(
    topic: str, who: str, operation: Operation
) -> None:
    assert may(acls((topic, who, operation, ALLOW)), READ)


@pytest.mark.parametrize(
    "row",
    [
        ("x", "a", READ, ALLOW),
        ("tt", "a", READ, ALLOW),
        ("tt+", "a", READ, ALLOW),
        ("t", "b", READ, ALLOW),
        ("t", "a@2.2.2.2", READ, ALLOW),
        ("t", "a@1.1.1.0/24", READ, ALLOW),
        ("t", "a", WRITE, ALLOW),
    ],
)
def test_what_does_not_match_does_not_allow(row: tuple[str, str, Operation, Permission]) -> None:
    assert not may(acls(row), READ)


@pytest.mark.parametrize("topic", ["t", "*", "t+"])
def test_a_denial_comes_first(topic: str) -> None:
    lists = acls(("t", "a", Operation.ALL, ALLOW), (topic, "*", READ, DENY))
    assert not may(lists, READ)
    assert may(lists, WRITE)


@pytest.mark.parametrize("operation", [READ, WRITE, Operation.DELETE, Operation.ALTER])
def test_some_permissions_imply_to_describe_but_denials_imply_nothing(
    operation: Operation,
) -> None:
    assert may(acls(("t", "a", operation, ALLOW)), DESCRIBE)
    assert may(acls(("t", "a", operation, DENY), ("t", "a", DESCRIBE, ALLOW)), DESCRIBE)
    assert not may(acls(("t", "a", DESCRIBE, ALLOW)), operation)


def test_who_may_alter_settings_may_read_them() -> None:
    assert may(acls(("t", "a", Operation.ALTER_CONFIGS, ALLOW)), Operation.DESCRIBE_CONFIGS)


def test_many_prefixes_are_found_as_few_are() -> None:
    rows = [(f"t{n}+", "a", READ, ALLOW) for n in range(100)]
    assert may(acls(*rows), READ, "t42")
    assert not may(acls(*rows), READ, "u42")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], False),
        ([("t", "a", WRITE, ALLOW)], True),
        ([("t+", "a", WRITE, ALLOW)], True),
        ([("t", "a", READ, ALLOW)], False),
        ([("t", "b", WRITE, ALLOW)], False),
        ([("t", "a", WRITE, ALLOW), ("t", "a", WRITE, DENY)], False),
        ([("ta", "a", WRITE, ALLOW), ("t+", "a", WRITE, DENY)], False),
        ([("t+", "a", WRITE, ALLOW), ("t", "a", WRITE, DENY)], True),
        ([("t+", "a", WRITE, ALLOW), ("ta+", "a", WRITE, DENY)], True),
        ([("t", "a", WRITE, ALLOW), ("*", "a", WRITE, DENY)], False),
        ([("*", "a", WRITE, ALLOW), ("t+", "a", WRITE, DENY)], True),
    ],
)
def test_writing_to_any_topic(
    rows: list[tuple[str, str, Operation, Permission]], expected: bool
) -> None:
    lists = acls(*rows)
    assert Authorizer(lists).allows_on_any("User:a", "h", WRITE, TOPIC) is expected


def test_an_open_broker_lets_everybody_write_to_some_topic_unless_all_are_denied() -> None:
    authorizer = Authorizer(acls(("t", "a", WRITE, DENY)), is_open_without_acls=True)
    assert authorizer.allows_on_any("User:a", "h", WRITE, TOPIC)
    authorizer = authorizer.with_acls(acls(("*", "a", WRITE, DENY)))
    assert not authorizer.allows_on_any("User:a", "h", WRITE, TOPIC)


def test_allowed_operations_are_bits() -> None:
    authorizer = Authorizer(acls(("t", "a", READ, ALLOW)), frozenset({"User:root"}))
    assert authorizer.allowed_operations("User:a", "h", TOPIC, "t") == bit_field([READ, DESCRIBE])
    assert authorizer.allowed_operations("User:root", "h", TOPIC, "t") == 0b110111111000
    assert authorizer.allowed_operations("User:b", "h", TOPIC, "t") == 0


def test_with_entries_replaces_those_of_one_resource() -> None:
    lists = acls(("t", "a", READ, ALLOW), ("u", "a", READ, ALLOW))
    resource = ResourcePattern(TOPIC, "t")
    changed = lists.with_entries(resource, [])
    assert resource not in changed.resources
    assert len(changed) == 1
    assert len(lists) == 2


MATCHED = acls(
    ("t", "a", READ, ALLOW),
    ("*", "b", WRITE, DENY),
    ("t+", "a", WRITE, ALLOW),
    ("x", "a", READ, DENY),
)


@pytest.mark.parametrize(
    ("asked", "topics"),
    [
        (AclFilter(), "t * t+ x"),
        (AclFilter(name="t", pattern=PatternType.LITERAL), "t"),
        (AclFilter(name="t", pattern=PatternType.PREFIXED), "t+"),
        (AclFilter(name="t", pattern=PatternType.ANY), "t t+"),
        (AclFilter(name="t", pattern=PatternType.MATCH), "t * t+"),
        (AclFilter(name="tea", pattern=PatternType.MATCH), "* t+"),
        (AclFilter(principal="User:a"), "t t+ x"),
        (AclFilter(operation=WRITE), "* t+"),
        (AclFilter(permission=DENY), "* x"),
        (AclFilter(host="1.1.1.1"), ""),
        (AclFilter(type=ResourceType.GROUP), ""),
    ],
)
def test_filters(asked: AclFilter, topics: str) -> None:
    found = {acl.resource for acl in MATCHED if asked.matches(acl)}
    names = {r.name + ("+" if r.pattern is PatternType.PREFIXED else "") for r in found}
    assert names == set(topics.split())


def entry(principal: str = "User:a", operation: Operation = READ) -> Entry:
    return Entry(principal, "*", operation, ALLOW)


@pytest.mark.parametrize(
    ("acl", "fault"),
    [
        (Acl(ResourcePattern(TOPIC, "t"), entry()), None),
        (Acl(ResourcePattern(ResourceType.ANY, "t"), entry()), "resourceType"),
        (Acl(ResourcePattern(TOPIC, "t", PatternType.MATCH), entry()), "patternType"),
        (Acl(ResourcePattern(TOPIC, ""), entry()), "empty"),
        (Acl(ResourcePattern(TOPIC, "a/b"), entry()), "slash"),
        (Acl(ResourcePattern(TOPIC, "t"), entry("alice")), "no colon"),
        (Acl(ResourcePattern(TOPIC, "t"), entry(operation=Operation.ANY)), "operation"),
        (
            Acl(ResourcePattern(ResourceType.CLUSTER, "x"), entry()),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
    ],
)
def test_what_may_be_created(acl: Acl, fault: str | None) -> None:
    said = fault_of(acl)
    assert (said is None) if fault is None else (said is not None and fault in said)


def test_the_audit_line_is_kafkas() -> None:
    verdict = Authorizer().verdict("User:bob", "10.0.0.1", READ, TOPIC, "t")
    assert audit_line(verdict, "User:bob", "10.0.0.1", READ, TOPIC, "t", "Fetch") == (
        "Principal = User:bob is Denied operation = READ from host = 10.0.0.1 on resource = "
        "Topic:LITERAL:t for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny"
    )


def test_of_several_entries_the_one_is_told_that_apache_kafka_tells() -> None:
    """The last that allows, the first that denies; those about all topics come after the others."""
    one = ("t", "a", DESCRIBE, ALLOW)
    for rows, told in (
        ([one, ("t", "a", READ, ALLOW)], "operation=DESCRIBE"),
        ([one, ("*", "a", WRITE, ALLOW)], "resourceName=*"),
        ([one, ("t+", "a", DESCRIBE, ALLOW)], "patternType=PREFIXED"),
        ([one, ("t", "*", DESCRIBE, ALLOW)], "principal=User:a"),
        ([("t", "a", DESCRIBE, DENY), ("*", "a", DESCRIBE, DENY), one], "resourceName=t,"),
        ([("t", "a", DESCRIBE, DENY), ("t", "a", Operation.ALL, DENY)], "operation=ALL"),
    ):
        for order in (rows, rows[::-1]):
            verdict = acls(*order).verdict("User:a", "1.1.1.1", DESCRIBE, TOPIC, "t")
            assert told in verdict.rule, verdict.rule
