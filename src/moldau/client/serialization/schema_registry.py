"""A schema registry as Confluent's speaks it over HTTP: schemas by number, subjects, registration.

    registry = Registry("http://127.0.0.1:8081")
    registry.schema(7)                                  # the text of a schema
    registry.register("orders-value", '"string"')       # its number

Several addresses, parted by commas, are tried in turn; a name and a password may stand before the
host. A schema's number never changes its meaning, so what was asked once is kept, up to a bound.
Redirects are not followed: the name and the password are for the address that was given.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from functools import lru_cache
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

ANSWER_SECONDS_MAX = 10.0
ANSWER_BYTES_MAX = 16 << 20
ATTEMPTS_MAX = 3
PAUSE_SECONDS = 0.2
SCHEMAS_MAX = 1_000
REGISTRIES_MAX = 16
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
BUSY = (429, 500, 502, 503, 504)
AVRO, PROTOBUF, JSON_SCHEMA = "AVRO", "PROTOBUF", "JSON"


class RegistryError(Exception):
    """What a user can mend, in one sentence."""


class Registered(NamedTuple):
    schema_id: int
    text: str


class Reference(NamedTuple):
    """Another schema that one is made with: the name it goes by there, and where it is."""

    name: str
    subject: str
    version: int


class Described(NamedTuple):
    """A schema of any kind; of Protobuf `text` is the serialized descriptor in base64."""

    kind: str
    text: str
    references: tuple[Reference, ...]


class _Refused(Exception):
    """The registry's own words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class _StaysHere(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        """None: the redirect is an answer like any other that is no schema."""


_OPENER = urllib.request.build_opener(_StaysHere)


class Registry:
    def __init__(
        self,
        address: str,
        *,
        answer_seconds_max: float = ANSWER_SECONDS_MAX,
        schemas_max: int = SCHEMAS_MAX,
    ) -> None:
        self._places = [_place(each.strip()) for each in address.split(",") if each.strip()]
        if not self._places:
            raise RegistryError(
                "The schema registry's address is empty: give one like http://127.0.0.1:8081"
            )
        self.name = ",".join(place for place, _ in self._places)
        """The addresses as they may be shown: without passwords."""
        self._answer_seconds_max = answer_seconds_max
        self._schemas_max = schemas_max
        self._schemas: OrderedDict[int, str] = OrderedDict()

    def schema(self, schema_id: int) -> str:
        """The text of the schema with this number."""
        known = self._schemas.get(schema_id)
        if known is not None:
            self._schemas.move_to_end(schema_id)
            return known
        try:
            text = _text(self._ask(f"/schemas/ids/{schema_id}"), f"Schema {schema_id}", self.name)
        except _Refused as fault:
            if fault.status == 404:
                raise RegistryError(
                    f"The schema registry at {self.name} has no schema {schema_id}: is it the "
                    "registry of those who wrote the records?"
                ) from None
            raise self._refused(f"schema {schema_id} is not to be had", fault) from None
        self._schemas[schema_id] = text
        if len(self._schemas) > self._schemas_max:
            self._schemas.popitem(last=False)
        return text

    def described(self, schema_id: int) -> Described:
        """The schema with this number, of whatever kind; not kept."""
        path = f"/schemas/ids/{schema_id}"
        return self._described(path, f"schema {schema_id}")

    def referred(self, reference: Reference) -> Described:
        path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
        return self._described(path, f"subject {reference.subject}")

    def _described(self, path: str, what: str) -> Described:
        try:
            answer = self._ask(path)
            if answer.get("schemaType") == PROTOBUF:
                answer = self._ask(f"{path}?format=serialized")
            references = tuple(
                Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
                for each in answer.get("references") or ()
            )
            return Described(answer.get("schemaType", AVRO), str(answer["schema"]), references)
        except _Refused as fault:
            raise self._refused(f"{what} is not to be had", fault) from None
        except (AttributeError, LookupError, TypeError, ValueError):
            raise RegistryError(
                f"{self.name} is no schema registry: its answer has no schema"
            ) from None

    def latest(self, subject: str) -> Registered:
        """The schema that was registered last under a subject."""
        try:
            answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions/latest")
        except _Refused as fault:
            if fault.status == 404:
                raise RegistryError(
                    f"The schema registry at {self.name} has no subject {subject}: register a "
                    "schema there first, or give one"
                ) from None
            raise self._refused(f"subject {subject} is not to be had", fault) from None
        return Registered(self._number(answer), _text(answer, f"Subject {subject}", self.name))

    def register(self, subject: str, text: str) -> int:
        """The number of the schema, which is registered under the subject if it is not yet."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        try:
            return self._number(self._ask(path, {"schema": text}))
        except _Refused as fault:
            if fault.status == 409:
                raise RegistryError(
                    f"The schema does not go with those that subject {subject} has at {self.name}"
                    f" ({fault}): keep to its compatibility or use another topic"
                ) from None
            raise self._refused(f"subject {subject} takes no such schema", fault) from None

    def _number(self, answer: Any) -> int:
        found = answer.get("id") if isinstance(answer, dict) else None
        if not isinstance(found, int):
            raise RegistryError(f"{self.name} is no schema registry: its answer names no schema")
        return found

    def _refused(self, what: str, fault: _Refused) -> RegistryError:
        return RegistryError(
            f"The schema registry at {self.name} says that {what}: {fault} (HTTP {fault.status})"
        )

    def _ask(self, path: str, body: dict[str, str] | None = None) -> Any:
        """The answer; what is down or busy is asked again, and so is the next address."""
        told = ""
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                time.sleep(PAUSE_SECONDS * 2**attempt)
            for place, credentials in self._places:
                try:
                    return self._ask_one(place + path, credentials, body)
                except _Refused as fault:
                    if fault.status not in BUSY:
                        raise
                    told = f"{fault} (HTTP {fault.status})"
                except (OSError, HTTPException) as fault:
                    told = str(getattr(fault, "reason", fault)) or type(fault).__name__
        raise RegistryError(
            f"The schema registry at {self.name} does not answer, asked {ATTEMPTS_MAX} times "
            f"({told}): check the address and that it runs"
        )

    def _ask_one(self, address: str, credentials: str | None, body: dict[str, str] | None) -> Any:
        headers = {"Accept": f"{CONTENT_TYPE}, application/json", "Content-Type": CONTENT_TYPE}
        if credentials is not None:
            headers["Authorization"] = f"Basic {credentials}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address, data, headers)
        try:
            with _OPENER.open(request, timeout=self._answer_seconds_max) as answer:
                content = answer.read(ANSWER_BYTES_MAX + 1)
        except urllib.error.HTTPError as fault:
            with fault:
                if 300 <= fault.code < 400:
                    raise RegistryError(
                        f"The schema registry at {self.name} answers with a redirect to "
                        f"{_origin(fault.headers.get('Location', ''))} (HTTP {fault.code}), which "
                        "is not followed: give the address that it leads to"
                    ) from None
                raise _Refused(fault.code, _message(fault.read(ANSWER_BYTES_MAX))) from None
        if len(content) > ANSWER_BYTES_MAX:
            raise RegistryError(f"An answer of {self.name} is larger than {ANSWER_BYTES_MAX} bytes")
        try:
            return json.loads(content)
        except ValueError:
            raise RegistryError(
                f"{self.name} is no schema registry: its answer is no JSON"
            ) from None


@lru_cache(maxsize=REGISTRIES_MAX)
def registry_at(address: str) -> Registry:
    """The registry that all batches of this process share."""
    return Registry(address)


def subject_of(topic: str, *, is_key: bool = False) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


def _place(address: str) -> tuple[str, str | None]:
    """Where to ask, and what proves who asks."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RegistryError(
            f"The schema registry's address cannot be {parts.netloc.rpartition('@')[2] or address}"
            ": give one like http://127.0.0.1:8081"
        )
    user, at, host = parts.netloc.rpartition("@")
    place = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
    return place, base64.b64encode(unquote(user).encode()).decode() if at else None


def _origin(location: str) -> str:
    """What may be shown of an address that a server names: no log-in, no path, no line breaks."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return "another path"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host[:200]}" if host and host.isprintable() else "another path"


def _message(content: bytes) -> str:
    try:
        answer = json.loads(content)
    except ValueError:
        return "no reason given"
    words = answer.get("message") if isinstance(answer, dict) else None
    return " ".join(str(words or "no reason given").split())


def _text(answer: Any, what: str, name: str) -> str:
    text = answer.get("schema") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        raise RegistryError(f"{name} is no schema registry: its answer has no schema")
    kind = answer.get("schemaType", AVRO)
    if kind != AVRO:
        raise RegistryError(f"{what} at {name} is of type {kind}, and only AVRO can be read")
    if answer.get("references"):
        raise RegistryError(
            f"{what} at {name} refers to schemas of other subjects, which is not supported: "
            "register it with those written out"
        )
    return text
