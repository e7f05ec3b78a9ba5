"""From a Kerberos name to a user: `sasl.kerberos.principal.to.local.rules`.

DEFAULT takes the first part of a name of the broker's own realm. RULE:[n:format](filter)s/a/b/g/L
looks at names of n parts. The first rule that applies wins; a name without one cannot log in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from moldau.security.naming.java_replacement import expanded

_RULE = re.compile(
    r"DEFAULT|RULE:\[(?P<parts>[0-9]+):(?P<format>[^\]]*)\]"
    r"(?:\((?P<filter>[^)]*)\))?"
    r"(?:s/(?P<find>[^/]*)/(?P<put>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_NAME = re.compile(r"(?P<service>[^/@]*)(?:/(?P<host>[^/@]*))?@(?P<realm>[^/@]*)")
_PARAMETER = re.compile(r"\$([0-9]+)")
_NOT_SIMPLE = re.compile(r"[/@]")


class NoRuleApplies(Exception):
    """A name that no rule turns into a user."""


class KerberosRule(NamedTuple):
    text: str
    parts: int
    """0 for DEFAULT."""
    format: str = ""
    filter: re.Pattern[str] | None = None
    find: re.Pattern[str] | None = None
    put: str = ""
    is_for_all: bool = False
    case: str = ""

    def apply(self, realm: str, parts: Sequence[str], default_realm: str) -> str | None:
        if self.parts == 0:
            return parts[0] if realm == default_realm else None
        if self.parts != len(parts):
            return None
        name = self._formatted((realm, *parts))
        if self.filter is not None and not self.filter.fullmatch(name):
            return None
        if self.find is not None:
            count = 0 if self.is_for_all else 1
            name = self.find.sub(lambda found: expanded(found, self.put), name, count=count)
        if _NOT_SIMPLE.search(name):
            raise NoRuleApplies(f"Non-simple name {name} after auth_to_local rule {self.text}")
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _formatted(self, values: Sequence[str]) -> str:
        def value(found: re.Match[str]) -> str:
            index = int(found[1])
            if index >= len(values):
                limit = f"0 to {len(values) - 1}"
                raise NoRuleApplies(f"${index} in rule {self.text} is outside of {limit}")
            return values[index]

        return _PARAMETER.sub(value, self.format)


def parse_kerberos_rules(texts: Sequence[str]) -> tuple[KerberosRule, ...]:
    return tuple(_rule(text.strip()) for text in texts)


def _rule(text: str) -> KerberosRule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"Invalid rule: {text}")
    if text == "DEFAULT":
        return KerberosRule(text, 0)
    return KerberosRule(
        text,
        int(found["parts"]),
        found["format"],
        _pattern(text, found["filter"]),
        _pattern(text, found["find"]),
        found["put"] or "",
        found["all"] is not None,
        found["case"] or "",
    )


def _pattern(rule: str, text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as fault:
        raise ValueError(f"Invalid rule: {rule}: {fault}") from None


def kerberos_user(name: str, rules: Sequence[KerberosRule], default_realm: str) -> str:
    found = _NAME.fullmatch(name)
    if found is None:
        if "@" in name:
            raise NoRuleApplies(f"Malformed Kerberos name: {name}")
        return name
    parts = [found["service"]] if found["host"] is None else [found["service"], found["host"]]
    for rule in rules:
        user = rule.apply(found["realm"], parts, default_realm)
        if user is not None:
            return user
    raise NoRuleApplies(f"No rules apply to {name}, rules {[rule.text for rule in rules]}")
