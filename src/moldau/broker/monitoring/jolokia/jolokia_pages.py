"""`/jolokia`: the broker's metrics by the names of Kafka's MBeans, for what was written for JMX.

Read only: `read`, `search`, `list` and `version`, by GET or POST, one or many at once. As with
Jolokia an answer is always 200 to HTTP and says in its JSON whether it is one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from moldau import __version__
from moldau.broker.monitoring.jolokia.jolokia_requests import (
    CHANGES,
    READS,
    JolokiaRequest,
    RequestFault,
    from_body,
    from_path,
)
from moldau.broker.monitoring.jolokia.mbean_reading import Attributes, MBean, MBeans
from moldau.broker.monitoring.meters import Meters
from moldau.broker.monitoring.metric_sources import MetricSources
from moldau.metrics.mbeans.object_names import NamePattern, ObjectName, parse_object_name

CONTENT_TYPE = "application/json; charset=utf-8"
PROTOCOL = "7.2"
LISTED_MAX = 20_000
NOT_FOUND = "javax.management.InstanceNotFoundException"
NO_ATTRIBUTE = "javax.management.AttributeNotFoundException"
ILLEGAL = "java.lang.IllegalArgumentException"
FORBIDDEN = "java.lang.SecurityException"
TYPES = {int: "long", float: "double", bool: "boolean", str: "java.lang.String"}

Lines = Iterator[str]


def lines(
    path: str, query: str, body: bytes | None, sources: MetricSources, meters: Meters
) -> Lines:
    """The answer to what was asked below /jolokia, by path or by body."""
    for _ in sources.look():
        yield ""
    mbeans = MBeans(sources, meters)
    if body is None:
        yield from answer_to_path(path, query, mbeans)
    else:
        yield from answer_to_body(body, mbeans)
    yield "\n"


def answer_to_path(path: str, query: str, mbeans: MBeans) -> Lines:
    """An empty line is a place to rest at; so below."""
    try:
        request = from_path(path, query)
    except RequestFault as fault:
        yield _refused({}, 400, ILLEGAL, str(fault))
        return
    yield from _answer(request, mbeans)


def answer_to_body(body: bytes, mbeans: MBeans) -> Lines:
    try:
        requests, is_bulk = from_body(body)
    except RequestFault as fault:
        yield _refused({}, 400, ILLEGAL, str(fault))
        return
    if is_bulk:
        yield "["
    for number, request in enumerate(requests):
        if number:
            yield ","
        if isinstance(request, RequestFault):
            yield _refused({}, 400, ILLEGAL, str(request))
        else:
            yield from _answer(request, mbeans)
    if is_bulk:
        yield "]"


def _answer(request: JolokiaRequest, mbeans: MBeans) -> Lines:
    told = request.told()
    if request.kind in CHANGES:
        yield _refused(told, 403, FORBIDDEN, f"{request.kind} is not allowed: this is read only")
        return
    if request.kind not in READS:
        yield _refused(told, 400, ILLEGAL, f"No type with name '{request.kind}' exists")
        return
    if request.kind == "version":
        info = {"product": "moldau", "vendor": "Moldau", "version": __version__}
        value = {"agent": __version__, "protocol": PROTOCOL, "info": info}
        yield _whole(told, json.dumps(value))
        return
    try:
        if request.kind == "list":
            yield from _list(request, told, mbeans)
            return
        name = parse_object_name(request.mbean)
        pattern = NamePattern(name)
    except ValueError as fault:
        yield _refused(told, 400, "javax.management.MalformedObjectNameException", str(fault))
        return
    told["mbean"] = request.named(name)
    if request.kind == "search":
        yield _begin(told) + "["
        names = (each and request.named(each[0]) for each in mbeans.matching(pattern))
        yield from _joined(names)
        yield "]" + _end()
    elif name.is_pattern:
        yield from _read_many(request, told, mbeans.matching(pattern))
    else:
        yield from _read_one(request, told, name, mbeans.matching(pattern))


def _read_one(
    request: JolokiaRequest, told: dict[str, Any], name: ObjectName, found: Iterator[MBean | None]
) -> Lines:
    attributes: Attributes | None = None
    for each in found:
        if each is not None:
            attributes = each[1]
            break
        yield ""
    if attributes is None:
        yield _refused(told, 404, NOT_FOUND, f"{NOT_FOUND} : {name}")
        return
    missing = [wanted for wanted in request.attributes if wanted not in attributes]
    if missing:
        text = f"{NO_ATTRIBUTE} : No such attribute: {missing[0]}"
        yield _refused(told, 404, NO_ATTRIBUTE, text)
    elif request.is_single:
        yield _whole(told, json.dumps(attributes[request.attributes[0]]))
    else:
        yield _whole(told, json.dumps(_chosen(attributes, request.attributes)))


def _chosen(attributes: Attributes, wanted: tuple[str, ...]) -> Attributes:
    return {name: attributes[name] for name in wanted or attributes if name in attributes}


def _read_many(
    request: JolokiaRequest, told: dict[str, Any], found: Iterator[MBean | None]
) -> Lines:
    """Those that have none of the attributes are left out; if none is left, nothing was found."""
    is_begun = False
    for each in found:
        if each is None:
            yield ""
            continue
        chosen = _chosen(each[1], request.attributes)
        if not chosen:
            yield ""
        else:
            yield "," if is_begun else _begin(told) + "{"
            is_begun = True
            yield f"{json.dumps(request.named(each[0]))}: {json.dumps(chosen)}"
    if is_begun:
        yield "}" + _end()
    else:
        text = f"{NOT_FOUND} : No MBean with pattern {told['mbean']} found for reading attributes"
        yield _refused(told, 404, NOT_FOUND, text)


def _list(request: JolokiaRequest, told: dict[str, Any], mbeans: MBeans) -> Lines:
    """All MBeans by domain, or those of one domain, or one."""
    domain = request.path[0] if request.path else "*"
    keys = request.path[1] if len(request.path) > 1 else "*"
    if len(request.path) > 2:
        yield _refused(told, 400, ILLEGAL, "a list goes by domain and MBean, no deeper")
        return
    name = parse_object_name(f"{domain}:{keys}")
    by_domain: dict[str, list[str]] = {}
    count = 0
    for each in mbeans.matching(NamePattern(name)):
        if each is None:
            yield ""
            continue
        rows = {
            attribute: {"rw": False, "type": TYPES.get(type(value), "double"), "desc": ""}
            for attribute, value in each[1].items()
        }
        text = request.named(each[0]).partition(":")[2]
        row = json.dumps({"attr": rows, "desc": ""})
        if len(request.path) > 1:
            yield _whole(told, row)
            return
        count += 1
        if count > LISTED_MAX:
            sentence = f"more than {LISTED_MAX} MBeans; name a domain, or search for a pattern"
            yield _refused(told, 400, ILLEGAL, sentence)
            return
        by_domain.setdefault(each[0].domain, []).append(f"{json.dumps(text)}: {row}")
    if request.path:
        if domain not in by_domain:
            yield _refused(told, 404, NOT_FOUND, f"{NOT_FOUND} : {name}")
            return
        yield _begin(told)
        yield from _object(by_domain[domain])
        yield _end()
        return
    yield _begin(told) + "{"
    for number, (each_domain, members) in enumerate(sorted(by_domain.items())):
        yield f"{',' if number else ''}{json.dumps(each_domain)}: "
        yield from _object(members)
    yield "}" + _end()


def _object(members: list[str]) -> Lines:
    yield "{"
    for number, member in enumerate(members):
        yield f",{member}" if number else member
    yield "}"


def _joined(names: Iterator[str | None]) -> Lines:
    is_begun = False
    for name in names:
        if name is None:
            yield ""
        else:
            yield f"{',' if is_begun else ''}{json.dumps(name)}"
            is_begun = True


def _begin(told: dict[str, Any]) -> str:
    return f'{{"request": {json.dumps(told)}, "value": '


def _end() -> str:
    return f', "timestamp": {int(time.time())}, "status": 200}}'


def _whole(told: dict[str, Any], value: str) -> str:
    return _begin(told) + value + _end()


def _refused(told: dict[str, Any], status: int, kind: str, sentence: str) -> str:
    answer = {"request": told, "error_type": kind, "error": sentence, "status": status}
    return json.dumps(answer)
