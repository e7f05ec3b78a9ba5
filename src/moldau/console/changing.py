"""A change that was confirmed: into the audit list, done, and its outcome beside it.

It is written before it is done: a change that cannot be written down is not made.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from moldau.client.shared.client_errors import ConfigError, KafkaError
from moldau.console.faults import sentence_of
from moldau.console.page import Asked, PageFault, Plan

OF_THE_FRAME = frozenset({"token", "confirmed", "typed"})


def hidden_fields(form: Mapping[str, str]) -> dict[str, str]:
    """What the page that asks carries over to the answer."""
    return {name: value for name, value in form.items() if name not in OF_THE_FRAME}


async def carry_out(plan: Plan, asked: Asked) -> str:
    """The sentence that tells what has been done."""
    row = {
        "id": secrets.token_hex(6),
        "principal": asked.link.principal or "ANONYMOUS",
        "address": asked.address,
        "agent": asked.agent,
        "change": plan.title,
        "command": plan.command,
        **plan.details,
    }
    try:
        await asked.audit.write({**row, "outcome": "begun"})
    except OSError as fault:
        raise PageFault(
            500,
            f"Nothing was changed, because the audit list {asked.audit.path} cannot be written:"
            f" {fault.strerror}.",
        ) from None
    try:
        told = await plan.act()
    except (KafkaError, ConfigError) as error:
        sentence = sentence_of(error) if isinstance(error, KafkaError) else str(error)
        await _write_outcome(asked, {**row, "outcome": "failed", "fault": sentence})
        raise
    await _write_outcome(asked, {**row, "outcome": "done"})
    return told


async def _write_outcome(asked: Asked, row: Mapping[str, str]) -> None:
    try:
        await asked.audit.write(row)
    except OSError as fault:
        raise PageFault(
            500,
            f"'{row['change']}' is {row['outcome']}, but the audit list {asked.audit.path} could"
            f" not be written: {fault.strerror}.",
        ) from None
