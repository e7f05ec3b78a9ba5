"""`moldau delegation-tokens`: create, renew, expire and describe delegation tokens, in the words of
kafka-delegation-tokens.sh.

What it prints holds the token's HMAC, which is its password: so does Kafka's.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.cli.command_clients import open_admin
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, long
from moldau.cli.output import Output
from moldau.cli.security.principals import principals
from moldau.cli.tool import BOOTSTRAP, JSON, Tool, actions_of, run_tool

if TYPE_CHECKING:
    from moldau.client.admin.tokens_admin import DelegationToken

ACTIONS = ("create", "renew", "expire", "describe")
TITLES = (
    *("TOKENID", "HMAC", "OWNER", "REQUESTER"),
    *("RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE"),
)
WIDTHS = (15, 30, 15, 15, 25, 15, 15, 15)
NEEDED = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
    "describe": (),
}
EXCLUDED = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": (
        *("renewer-principal", "max-life-time-period"),
        *("expiry-time-period", "owner-principal"),
    ),
    "expire": ("max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"),
}
"""What each action needs, and what makes no sense beside it."""
ONLY_WITH = {
    "hmac": ("renew", "expire"),
    "max-life-time-period": ("create",),
    "renew-time-period": ("renew",),
    "expiry-time-period": ("expire",),
    "renewer-principal": ("create",),
    "owner-principal": ("create", "describe"),
}


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    actions = [action for action in ACTIONS if given.has(action)]
    if len(actions) != 1:
        raise UsageFault(
            "Command must include exactly one action: --create, --renew, --expire or --describe"
        )
    (action,) = actions
    for key in ("bootstrap-server", "command-config", *NEEDED[action]):
        if not given.has(key):
            raise UsageFault(f'Missing required argument "[{key}]"')
    for key in EXCLUDED[action]:
        if given.has(key):
            raise UsageFault(f'Option "[{action}]" can\'t be used with option "[{key}]"')
    {"create": create, "renew": renew, "expire": expire, "describe": describe}[action](given, out)


def create(given: Given, out: Output) -> None:
    renewers = principals(given, "renewer-principal")
    lifetime_ms = given.number("max-life-time-period")
    say(
        given,
        out,
        f"Calling create token operation with renewers :{listed(renewers)} , "
        f"max-life-time-period :{lifetime_ms}\n",
    )
    owners = principals(given, "owner-principal")
    with open_admin(given, out) as admin:
        token = admin.create_delegation_token(
            renewers=renewers,
            owner=owners[0] if owners else None,
            max_lifetime=seconds(lifetime_ms),
        )
    say(given, out, f"Created delegation token with tokenId : {token.token_id}\n")
    show(given, out, [token])


def renew(given: Given, out: Output) -> None:
    text, period_ms = given.text("hmac"), given.number("renew-time-period")
    say(
        given,
        out,
        f"Calling renew token operation with hmac :{text} , renew-time-period :{period_ms}\n",
    )
    mac = decoded(text)
    with open_admin(given, out) as admin:
        expires_ms = admin.renew_delegation_token(mac, period=seconds(period_ms))
    tell_end(given, out, "renew", expires_ms)


def expire(given: Given, out: Output) -> None:
    text, period_ms = given.text("hmac"), given.number("expiry-time-period")
    say(
        given,
        out,
        f"Calling expire token operation with hmac :{text} , expire-time-period :{period_ms}\n",
    )
    mac = decoded(text)
    with open_admin(given, out) as admin:
        expires_ms = admin.expire_delegation_token(mac, period=seconds(period_ms))
    tell_end(given, out, "expire", expires_ms)


def describe(given: Given, out: Output) -> None:
    owners = principals(given, "owner-principal")
    whose = f"owners: {listed(owners)}" if owners else "current user."
    say(given, out, f"Calling describe token operation for {whose}\n")
    with open_admin(given, out) as admin:
        tokens = admin.describe_delegation_tokens(owners or None)
    say(given, out, f"Total number of tokens : {len(tokens)}")
    show(given, out, tokens)


def say(given: Given, out: Output, text: str) -> None:
    if not given.has("json"):
        out.write(text)
        out.flush()


def tell_end(given: Given, out: Output, action: str, expires_ms: int) -> None:
    if given.has("json"):
        out.json({"expiryTimestamp": expires_ms})
    else:
        out.write(f"Completed {action} operation. New expiry date : {date(expires_ms)}")


def show(given: Given, out: Output, tokens: Sequence[DelegationToken]) -> None:
    if given.has("json"):
        out.json([as_json(token) for token in tokens])
        return
    out.write("\n" + row(TITLES) + "\n")
    for token in tokens:
        cells = (
            *(token.token_id, encoded(token.hmac), token.owner, token.requester),
            *(listed(token.renewers), date(token.issued_ms)),
            *(date(token.expires_ms), date(token.lives_until_ms)),
        )
        out.write("\n" + row(cells) + "\n")


def as_json(token: DelegationToken) -> dict[str, object]:
    return {
        "tokenId": token.token_id,
        "hmac": encoded(token.hmac),
        "owner": token.owner,
        "requester": token.requester,
        "renewers": token.renewers,
        "issueTimestamp": token.issued_ms,
        "expiryTimestamp": token.expires_ms,
        "maxTimestamp": token.lives_until_ms,
    }


def row(cells: Sequence[str]) -> str:
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True))


def listed(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"


def date(at_ms: int) -> str:
    """In the time zone of whoever reads it, as Kafka's tool."""
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(at_ms / 1000))


def seconds(period_ms: int) -> float | None:
    """None stands for -1."""
    return None if period_ms < 0 else period_ms / 1000


def encoded(mac: bytes) -> str:
    return base64.b64encode(mac).decode("ascii")


def decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise CommandFault("the value of --hmac is not Base64") from None


TOOL = Tool(
    name="delegation-tokens",
    does="Creates, renews, expires and describes delegation tokens.",
    flags=(
        BOOTSTRAP,
        Flag(
            "--command-config",
            "A properties file with settings of the client. Tokens are given out over connections "
            "that are logged in only: the file says how.",
            takes="FILE",
        ),
        Flag("--create", "Create a token, with which programs log in for its owner."),
        Flag("--renew", "Let a token live longer."),
        Flag("--expire", "Let a token end sooner, or at once."),
        Flag("--describe", "Show the tokens of the owners, or all that may be seen."),
        Flag("--owner-principal", "The owner, as User:name.", takes="PRINCIPAL", repeats=True),
        Flag(
            "--renewer-principal",
            "Who may renew the token besides its owner, as User:name.",
            takes="PRINCIPAL",
            repeats=True,
        ),
        Flag(
            "--max-life-time-period",
            "How old the token may become in ms; -1 for as old as the brokers allow.",
            takes="MS",
            kind=long,
        ),
        Flag(
            "--renew-time-period",
            "For how long in ms; -1 for as long as the brokers' setting says.",
            takes="MS",
            kind=long,
        ),
        Flag(
            "--expiry-time-period",
            "When the token ends, in ms from now; -1 for at once.",
            takes="MS",
            kind=long,
        ),
        Flag("--hmac", "The HMAC of the token, in Base64.", takes="HMAC"),
        JSON,
    ),
    main=main,
    actions=actions_of(ACTIONS, needs=NEEDED, only_with=ONLY_WITH),
    examples=(
        "moldau delegation-tokens --bootstrap-server localhost:9092 --command-config "
        "client.properties --create --max-life-time-period -1 --renewer-principal User:alice",
        "moldau delegation-tokens --bootstrap-server localhost:9092 --command-config "
        "client.properties --describe",
    ),
)
