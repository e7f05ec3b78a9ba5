"""The client of schema registries, against a server that speaks their HTTP."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator

import pytest

from moldau.client.serialization.schema_registry import (
    Registered,
    Registry,
    RegistryError,
    subject_of,
)
from tests.support.schema_registry import SchemaRegistry


@pytest.fixture
def served() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as registry:
        yield registry


def test_a_schema_is_registered_under_its_subject_and_found_by_number(
    served: SchemaRegistry,
) -> None:
    registry = Registry(served.address)
    subject = subject_of("shop/orders")
    assert subject == "shop/orders-value"
    assert subject_of("orders", is_key=True) == "orders-key"
    first = registry.register(subject, '"string"')
    assert registry.register(subject, '"string"') == first
    second = registry.register(subject, '"long"')
    assert second != first
    assert registry.schema(first) == '"string"'
    assert registry.latest(subject) == Registered(second, '"long"')
    assert served.requests[0] == "POST /subjects/shop%2Forders-value/versions"


def test_a_schema_is_asked_for_once_while_the_cache_holds_it(served: SchemaRegistry) -> None:
    numbers = [served.add("s", f'"{kind}"') for kind in ("int", "long", "string")]
    registry = Registry(served.address, schemas_max=2)
    for number in (numbers[0], numbers[0], numbers[1], numbers[0]):
        registry.schema(number)
    assert len(served.requests) == 2
    registry.schema(numbers[2])  # The one not used for the longest time goes.
    registry.schema(numbers[0])
    assert len(served.requests) == 3
    registry.schema(numbers[1])
    assert len(served.requests) == 4


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_and_takes_no_password_along(
    served: SchemaRegistry, status: int
) -> None:
    with SchemaRegistry() as other:
        other.redirects = (status, f"http://me:mine@{other.address[7:]}/elsewhere")
        served.redirects = (status, f"{other.address}/schemas/ids/1")
        address = served.address.replace("://", "://user:secret@")
        registry = Registry(address)
        for ask in (lambda: registry.schema(1), lambda: registry.register("s", '"int"')):
            with pytest.raises(RegistryError, match="is not followed: give the address") as told:
                ask()
            assert f"a redirect to {other.address} (HTTP {status})" in str(told.value)
            assert "secret" not in str(told.value)
        assert not other.requests
        with pytest.raises(RegistryError, match=rf"redirect to {other.address} \("):
            Registry(other.address).schema(1)


def test_a_registry_that_is_busy_is_asked_again_up_to_a_bound(served: SchemaRegistry) -> None:
    number = served.add("s", '"int"')
    served.busy = 2
    assert Registry(served.address).schema(number) == '"int"'
    served.busy = 3
    with pytest.raises(RegistryError, match=r"does not answer, asked 3 times \(not now"):
        Registry(served.address).schema(number)


def test_of_several_addresses_one_that_answers_is_enough_and_passwords_are_not_told(
    served: SchemaRegistry,
) -> None:
    number = served.add("s", '"int"')
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        host = served.address.removeprefix("http://")
        registry = Registry(f"http://127.0.0.1:{port}, http://ann:s%3Acret@{host}")
        assert registry.schema(number) == '"int"'
        proof = base64.b64encode(b"ann:s:cret").decode()
        assert served.authorizations == {f"Basic {proof}"}
        with pytest.raises(RegistryError, match="has no schema 99") as fault:
            registry.schema(99)
        assert "cret" not in str(fault.value)


def test_a_registry_that_never_answers_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RegistryError, match=r"does not answer.*timed out"):
            Registry(address, answer_seconds_max=0.05).schema(1)


def test_what_a_registry_refuses_is_told_in_one_sentence(served: SchemaRegistry) -> None:
    registry = Registry(served.address)
    served.frozen.add("orders-value")
    with pytest.raises(RegistryError, match="does not go with those that subject orders-value"):
        registry.register("orders-value", '"int"')
    with pytest.raises(RegistryError, match="has no subject nobody-value: register a schema"):
        registry.latest("nobody-value")
    number = served.add("s", '"int"')
    served.extra = {"schemaType": "PROTOBUF"}
    with pytest.raises(RegistryError, match="is of type PROTOBUF, and only AVRO"):
        registry.schema(number)
    served.extra = {"references": [{"name": "x", "subject": "x", "version": 1}]}
    with pytest.raises(RegistryError, match="refers to schemas of other subjects") as fault:
        registry.latest("s")
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("address", ["", " , ", "localhost:8081", "ftp://host", "http://"])
def test_an_address_that_cannot_be_is_refused(address: str) -> None:
    with pytest.raises(RegistryError, match=r"give one like http://127\.0\.0\.1:8081"):
        Registry(address)
