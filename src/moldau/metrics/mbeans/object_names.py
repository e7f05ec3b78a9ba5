"""Names of MBeans, `domain:key=value,...`, and patterns of them, as JMX has them.

The order of the keys means nothing; the canonical name has them sorted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import NamedTuple

NAME_LENGTH_MAX = 2_000
WILDCARDS_MAX = 8
"""Of one text: matching one with many can take for ever."""
_PAIR = re.compile(r'([^,=:*?"]+)=("(?:\\.|[^"\\])*"|[^,=:"]*)(?:,|$)')
_NEEDS_QUOTES = re.compile(r'[,=:"*?\n]')


class ObjectName(NamedTuple):
    domain: str
    keys: tuple[tuple[str, str], ...]
    """Sorted."""
    has_more: bool = False
    """A pattern that other keys may be added to."""
    as_made: str = ""
    """The same with the keys in the order in which they were given."""

    def __str__(self) -> str:
        pairs = [f"{key}={value}" for key, value in self.keys]
        return f"{self.domain}:{','.join([*pairs, *('*' if self.has_more else '')])}"

    @property
    def is_pattern(self) -> bool:
        texts = (self.domain, *(value for _, value in self.keys))
        return self.has_more or any("*" in text or "?" in text for text in texts)


def object_name(domain: str, pairs: Iterable[tuple[str, str]]) -> ObjectName:
    told = [(key, quoted(value)) for key, value in pairs]
    as_made = f"{domain}:{','.join(f'{key}={value}' for key, value in told)}"
    return ObjectName(domain, tuple(sorted(told)), as_made=as_made)


def quoted(value: str) -> str:
    if not _NEEDS_QUOTES.search(value):
        return value
    text = re.sub(r'([\\"*?])', r"\\\1", value).replace("\n", "\\n")
    return f'"{text}"'


def parse_object_name(text: str) -> ObjectName:
    """Raises ValueError."""
    domain, colon, rest = text.partition(":")
    if not colon or len(text) > NAME_LENGTH_MAX:
        raise ValueError(f"{text[:200]} is not of the form domain:key=value")
    if rest == "*":
        return ObjectName(domain, (), has_more=True, as_made=text)
    has_more = rest.endswith(",*")
    rest = rest.removesuffix(",*")
    pairs: dict[str, str] = {}
    position = 0
    while position < len(rest):
        found = _PAIR.match(rest, position)
        if found is None or found[1] in pairs:
            raise ValueError(f"{text[:200]} is not of the form domain:key=value")
        pairs[found[1]] = found[2]
        position = found.end()
    if not pairs:
        raise ValueError(f"{text[:200]} has no key")
    return ObjectName(domain, tuple(sorted(pairs.items())), has_more, text)


class NamePattern:
    """Which names are meant by a name that may have wildcards."""

    def __init__(self, name: ObjectName) -> None:
        """Raises ValueError for too many wildcards."""
        self._domain = _matcher(name.domain)
        self._keys = {key: _matcher(value) for key, value in name.keys}
        self._has_more = name.has_more

    def may_have(self, domain: str, fixed: Iterable[tuple[str, str]], tags: Iterable[str]) -> bool:
        """Whether names with these keys, and perhaps those tags, can be meant."""
        known = dict(fixed)
        if not _fits(self._domain, domain):
            return False
        if any(key in self._keys and not _fits(self._keys[key], known[key]) for key in known):
            return False
        return self._keys.keys() <= known.keys() | set(tags)

    def means(self, name: ObjectName) -> bool:
        keys = dict(name.keys)
        if not self._has_more and keys.keys() != self._keys.keys():
            return False
        return _fits(self._domain, name.domain) and all(
            key in keys and _fits(matcher, keys[key]) for key, matcher in self._keys.items()
        )


Matcher = str | re.Pattern[str]


def _matcher(text: str) -> Matcher:
    text = re.sub(r"\*+", "*", text)
    count = text.count("*")
    if count > WILDCARDS_MAX:
        raise ValueError(f"{count} wildcards in one text are more than {WILDCARDS_MAX}")
    if count or "?" in text:
        return re.compile(translate(text.replace("[", "[[]")))
    return text


def _fits(matcher: Matcher, text: str) -> bool:
    if isinstance(matcher, str):
        return matcher == text
    return matcher.fullmatch(text) is not None
