"""From the name in a client's certificate to a user: `ssl.principal.mapping.rules`.

A list of DEFAULT (the whole name) or RULE:pattern/replacement/[LU]; the first whose pattern matches
the whole name wins. Slashes and commas inside a rule are written with a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from moldau.security.naming.java_replacement import expanded
from moldau.security.naming.kerberos_names import NoRuleApplies

_RULES = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<put>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:[,\n]|$)",
    re.DOTALL,
)


class CertificateRule(NamedTuple):
    text: str
    pattern: re.Pattern[str] | None = None
    """None for DEFAULT."""
    put: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if not self.pattern.fullmatch(name):
            return None
        user = self.pattern.sub(lambda found: expanded(found, self.put), name)
        return user.lower() if self.case == "L" else user.upper() if self.case == "U" else user


def parse_certificate_rules(text: str) -> tuple[CertificateRule, ...]:
    rules = []
    position = 0
    text = text.strip() or "DEFAULT"
    while position < len(text):
        found = _RULES.match(text, position)
        if found is None:
            raise ValueError(f"Invalid rule: {text[position:]}, unmatched substring")
        position = found.end()
        written = found.group().strip().removesuffix(",")
        if found["default"]:
            rules.append(CertificateRule(written))
            continue
        try:
            pattern = re.compile(found["pattern"].replace("\\/", "/").replace("\\,", ","))
        except re.error as fault:
            raise ValueError(f"Invalid rule: {written}: {fault}") from None
        rules.append(CertificateRule(written, pattern, found["put"], found["case"]))
    return tuple(rules)


def certificate_user(name: str, rules: Sequence[CertificateRule]) -> str:
    for rule in rules:
        user = rule.apply(name)
        if user is not None:
            return user
    raise NoRuleApplies(f"No rules apply to {name}, rules {[rule.text for rule in rules]}")
