"""How compiled code that walks through much lets the other threads of the process go on.

A kernel keeps the interpreter from its first to its last record, in whatever thread it runs, and
the event loop stands still meanwhile. A function of Python gives it up when it begins, if somebody
has asked for it. So kernels call this one, which must stay uncompiled, every few thousand steps.
"""

from __future__ import annotations


def offer_interpreter() -> None:
    """Nothing to do: the call itself is what lets others in."""
