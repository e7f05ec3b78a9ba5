"""Whoever is behind a connection, as access control lists name them: `Type:name`."""

from __future__ import annotations

from typing import NamedTuple

USER = "User"


class Principal(NamedTuple):
    type: str
    name: str
    is_token_authenticated: bool = False
    """Logged in with a delegation token: may not ask for further ones."""

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")


def parse_principal(text: str) -> Principal:
    kind, colon, name = text.partition(":")
    if not colon or not kind:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return Principal(kind, name)


def parse_super_users(text: str) -> frozenset[str]:
    """The value of `super.users`: semicolons, because names in certificates have commas."""
    found = (part.strip() for part in text.split(";"))
    return frozenset(str(parse_principal(part)) for part in found if part)
