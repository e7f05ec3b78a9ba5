"""What pages and changes are: rows of `pages.py`, and what their functions are given and return."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.responses import Response

if TYPE_CHECKING:
    from moldau.console.audit_list import AuditList
    from moldau.console.cluster_link import ClusterLink
    from moldau.console.console_settings import ConsoleSettings
    from moldau.console.machine.metrics_watch import MetricsWatch

Shown = Mapping[str, Any] | Response
"""What a view returns: the data of its template and of its JSON, or an answer of its own."""


class PageFault(Exception):
    """The page cannot be shown, or the change not be made; says why in one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


@dataclass(slots=True)
class Asked:
    """One request, as views see it."""

    link: ClusterLink
    """The way to the cluster, as the user who asks."""
    settings: ConsoleSettings
    audit: AuditList
    metrics: MetricsWatch
    path: Mapping[str, str]
    """The words in braces of the page's path."""
    query: Mapping[str, str]
    """What follows the question mark; of a word that is there twice, the last."""
    form: Mapping[str, str]
    """What was filled in; empty unless this is a change."""
    address: str = ""
    agent: str = ""
    is_json: bool = False

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**63 - 1) -> int:
        """A whole number of the query; one that makes no sense is said to be none."""
        return _number(name, self.query.get(name, ""), default, least, most)

    def filled(self, name: str) -> str:
        """A field of the form that has to be filled in."""
        text = self.form.get(name, "").strip()
        if not text:
            raise PageFault(400, f"The field '{name}' is empty.")
        return text

    def filled_number(self, name: str, default: int, *, least: int, most: int) -> int:
        return _number(name, self.form.get(name, ""), default, least, most)


def _number(name: str, text: str, default: int, least: int, most: int) -> int:
    if not text.strip():
        return default
    try:
        value = int(text)
    except ValueError:
        raise PageFault(400, f"'{name}' must be a whole number, not '{text[:40]}'.") from None
    if not least <= value <= most:
        raise PageFault(400, f"'{name}' must be from {least} to {most}, not {value}.")
    return value


View = Callable[[Asked], Awaitable[Shown]]


class Page(NamedTuple):
    path: str
    """As Starlette writes paths: `/topics/{topic}`; a word that may hold slashes `{name:path}`."""
    view: View
    template: str
    title: str
    nav: str = ""
    """Under which heading the menu lists it; without one it is reached from other pages."""
    tab: str = ""
    """The tab that it is, among those of its topic or broker."""
    refreshes: bool = True
    """Whether `<main>` is fetched again while somebody looks."""


class Plan(NamedTuple):
    """What a change would do: shown before it is done, and done when the user says so."""

    title: str
    """As a heading: "Delete the topic orders"."""
    sentences: tuple[str, ...]
    """What will happen, and what cannot be undone."""
    act: Callable[[], Awaitable[str]]
    """Does it and returns the sentence that is shown then."""
    after: str
    """The page to go to then, without the prefix."""
    command: str = ""
    """The `moldau` command that does the same; never with a secret in it."""
    typed: str = ""
    """What has to be typed: the name of what will be gone."""
    rows: tuple[tuple[str, ...], ...] = ()
    """A table of what will change; the first row is its header."""
    details: Mapping[str, str] = {}
    """More for the audit list; never a secret."""


class Change(NamedTuple):
    path: str
    plan: Callable[[Asked], Awaitable[Plan]]
    asks: bool = True
    """Whether the plan is shown first; what harms nothing may be done at once."""
