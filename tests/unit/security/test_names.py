"""From foreign names to users: both grammars of rules, principals, super users."""

from __future__ import annotations

import pytest

from moldau.security.naming.certificate_names import certificate_user, parse_certificate_rules
from moldau.security.naming.kerberos_names import (
    NoRuleApplies,
    kerberos_user,
    parse_kerberos_rules,
)
from moldau.security.naming.principal import Principal, parse_principal, parse_super_users

NAME = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        (["DEFAULT"], "alice@REALM", "alice"),
        (["DEFAULT"], "kafka/host@REALM", "kafka"),
        (["DEFAULT"], "alice", "alice"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "bob@OTHER", "bob"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "bob@REALM", "bob"),
        (["RULE:[2:$1-$2]", "DEFAULT"], "kafka/h1@X", "kafka-h1"),
        (["RULE:[1:$1]/U"], "bob@X", "BOB"),
        (["RULE:[1:$1](b.*)s/b/x/g/L"], "bOb-b@X", "xox-x"),
        (["RULE:[1:$1](b.*)s/b/x/"], "bob@X", "xob"),
        (["RULE:[2:$1;$2](.*;admin)s/(.*);admin/$1-a/"], "bob/admin@X", "bob-a"),
    ],
)
def test_kerberos_rules(rules: list[str], name: str, user: str) -> None:
    assert kerberos_user(name, parse_kerberos_rules(rules), "REALM") == user


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        (["DEFAULT"], "alice@OTHER"),
        (["RULE:[1:$1@$0]"], "alice@REALM"),
        (["RULE:[2:$1]"], "alice@REALM"),
        (["RULE:[1:$7]"], "alice@REALM"),
        (["DEFAULT"], "a/b/c@REALM"),
    ],
)
def test_a_kerberos_name_without_a_rule_is_nobody(rules: list[str], name: str) -> None:
    with pytest.raises(NoRuleApplies):
        kerberos_user(name, parse_kerberos_rules(rules), "REALM")


@pytest.mark.parametrize("rule", ["", "RULE", "RULE:[x:$1]", "RULE:[1:$1](()", "default"])
def test_a_rule_that_cannot_be_read_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        parse_kerberos_rules([rule])


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", NAME),
        ("", NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1@$2/", "Duke@$2"),
        ("RULE:^CN=(.*?),.*$/$1/L, DEFAULT", "duke"),
        ("RULE:^cn=(.*?),.*$/$1/U, RULE:^CN=(.*?),.*$/$1/U", "DUKE"),
        ("RULE:^OU=(.*)$/$1/, DEFAULT", NAME),
        (r"RULE:^CN=(.*?)\,OU=(.*?),.*$/$1\/$2/", "Duke/ServiceUsers"),
        ("RULE:^CN=Duke.*$/fixed/", "fixed"),
    ],
)
def test_certificate_rules(rules: str, user: str) -> None:
    assert certificate_user(NAME, parse_certificate_rules(rules)) == user


def test_a_certificate_without_a_rule_is_nobody() -> None:
    with pytest.raises(NoRuleApplies):
        certificate_user(NAME, parse_certificate_rules("RULE:^OU=(.*)$/$1/"))


@pytest.mark.parametrize("rules", ["default", "DEFAULT/L", "RULE:x", "RULE:x/y", "RULE:(/y/"])
def test_a_certificate_rule_that_cannot_be_read_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        parse_certificate_rules(rules)


def test_super_users_are_separated_by_semicolons() -> None:
    assert parse_super_users(" User:a; User:CN=b,O=c ;") == {"User:a", "User:CN=b,O=c"}
    with pytest.raises(ValueError, match="principalType:principalName"):
        parse_super_users("alice")


def test_a_principal_may_have_colons_in_its_name() -> None:
    assert parse_principal("User:a:b") == Principal("User", "a:b")
    assert str(Principal("User", "a")) == "User:a"
