"""The public modules: what they offer, explained, and the same for threads and for asyncio."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import moldau
from moldau import aio

MODULES = [
    import_module(name)
    for name in ("moldau", "moldau.aio", "moldau.admin", "moldau.serialization", "moldau.errors")
]
TWINS = [
    (moldau.Producer, aio.Producer),
    (moldau.Consumer, aio.Consumer),
    (moldau.Admin, aio.Admin),
]


def public(kind: type) -> dict[str, Any]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


def arguments(function: Any) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults; what stands for a class decides nothing."""
    given = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default) for each in given]


@pytest.mark.parametrize(("blocking", "asynchronous"), TWINS, ids=lambda kind: kind.__name__)
def test_the_blocking_and_the_asyncio_client_are_the_same(
    blocking: type, asynchronous: type
) -> None:
    ours, theirs = public(blocking), public(asynchronous)
    assert ours.keys() == theirs.keys()
    assert arguments(blocking.__init__) == arguments(asynchronous.__init__)
    for name, member in ours.items():
        twin = theirs[name]
        assert isinstance(member, property) == isinstance(twin, property), name
        if not isinstance(member, property):
            assert arguments(member) == arguments(twin), name


@pytest.mark.parametrize("kind", [kind for pair in TWINS for kind in pair], ids=str)
def test_every_method_is_explained_and_has_types(kind: type) -> None:
    assert ">>>" in (kind.__doc__ or ""), "an example"
    for name, member in public(kind).items():
        assert inspect.getdoc(member), name
        function = member.fget if isinstance(member, property) else member
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty, name
        for parameter in list(signature.parameters.values())[0 if name == "attach" else 1 :]:
            assert parameter.annotation is not inspect.Parameter.empty, f"{name}: {parameter}"


@pytest.mark.parametrize("kind", [kind for pair in TWINS for kind in pair], ids=str)
def test_durations_are_seconds(kind: type) -> None:
    for name, member in public(kind).items():
        if callable(member):
            names = set(inspect.signature(member).parameters) - {"timestamp_ms"}
            assert not [each for each in names if each.endswith("_ms")], name


def words(annotation: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name)}


def mentioned(kind: type) -> set[str]:
    """Names of the house in the signatures and fields of a class."""
    found: set[str] = set()
    for member in public(kind).values():
        function = member.fget if isinstance(member, property) else member
        for text in getattr(function, "__annotations__", {}).values():
            found |= words(text) if isinstance(text, str) else set()
    for text in vars(kind).get("__annotations__", {}).values():
        found |= words(text) if isinstance(text, str) else set()
    return found


def defined_here(home: ModuleType, name: str) -> bool:
    thing = getattr(home, name, None)
    return inspect.isclass(thing) and thing.__module__.startswith("moldau.client")


def test_everything_that_a_public_signature_mentions_is_public() -> None:
    offered = {name for module in MODULES for name in module.__all__}
    for module in MODULES:
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.isclass(thing):
                continue
            home = import_module(thing.__module__)
            missing = {each for each in mentioned(thing) - offered if defined_here(home, each)}
            assert not missing, f"{module.__name__}.{name} mentions {missing}"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_public_module_offers_what_it_says(module: ModuleType) -> None:
    assert len(set(module.__all__)) == len(module.__all__)
    assert list(module.__all__) == sorted(module.__all__)
    assert (module.__doc__ or "").strip()
    for name in module.__all__:
        assert hasattr(module, name), name


@pytest.mark.parametrize("kind", [kind for pair in TWINS for kind in pair], ids=str)
def test_a_client_shows_nothing_but_its_methods(kind: type) -> None:
    client = kind(bootstrap_servers="127.0.0.1:1")
    try:
        assert not [name for name in vars(client) if not name.startswith("_")]
    finally:
        if not inspect.iscoroutinefunction(client.close):
            client.close()
