"""Replacement texts as Java writes them: `$1` for a group, a backslash before a plain sign."""

from __future__ import annotations

import re

_REFERENCE = re.compile(r"\\(.)|\$([0-9]+)|([^\\$]+)|([\\$])", re.DOTALL)


def expanded(found: re.Match[str], replacement: str) -> str:
    """A reference to a group that the pattern does not have stays as it is."""
    pieces = []
    for part in _REFERENCE.finditer(replacement):
        escaped, digits, plain, lone = part.groups()
        if digits is None:
            pieces.append(escaped or plain or lone)
            continue
        # As many digits as still name a group: $12 is group 1 and a 2 if there is no group 12.
        used = next((n for n in range(len(digits), 0, -1) if _is_group(found, digits[:n])), 0)
        group = found[int(digits[:used])] if used else f"${digits}"
        pieces.append((group or "") + (digits[used:] if used else ""))
    return "".join(pieces)


def _is_group(found: re.Match[str], digits: str) -> bool:
    return int(digits) <= found.re.groups
