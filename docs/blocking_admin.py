"""Writes `moldau.Admin` from `moldau.aio.Admin`; run by `make docs`, and a test compares.

The asyncio face is written by hand. The blocking one has the same methods with the same arguments
and sentences, so it is derived: no `async`, no `await` in examples, and a body that has the method
of the asyncio face run on the background loop.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ADMIN = Path(__file__).parent.parent / "src" / "moldau" / "client" / "admin"
SOURCE = ADMIN / "asyncio_admin.py"
TARGET = ADMIN / "blocking_admin.py"

HEAD = '''\
"""`moldau.Admin`: one method per administrative request; each blocks until it is done.

The twin of `asyncio_admin.py`, on the background loop of the process. Written by `make docs` from
that file: change it there.
"""
'''

IMPORTS = (
    ("collections.abc import Iterable", "collections.abc import Coroutine, Iterable"),
    ("from typing import Any, Self\n", "from typing import Any, Self, TypeVar\n"),
    ("from moldau.client.admin.admin_core import AdminCore\n", ""),
    ("    results,\n)\n", ")\nfrom moldau.client.admin.asyncio_admin import Admin as AsyncAdmin\n"),
    ("shared.durations import milliseconds", "shared.background_loop import is_inherited, run"),
)

FRAME = '''
T = TypeVar("T")


class Admin:
    """Administers a cluster; every call blocks until it is done.

    >>> with Admin(bootstrap_servers="localhost:9092") as admin:             # doctest: +SKIP
    ...     admin.create_topics([NewTopic("orders", partitions=3)])

    Settings are Kafka's keys, in a mapping or as keywords with underscores. Threads may share one.
    A call on many things gives `Results`, a dict: it raises the first error of any of them, unless
    `raise_errors=False`; then `.errors` has what failed. Every call takes at most `timeout`
    seconds, without it `default.api.timeout.ms`."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self._client = AsyncAdmin(config, **settings)

    def close(self) -> None:
        """Close the connections; what is under way fails. A second time does nothing."""
        if not is_inherited(self._client):
            self._run(self._client.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *outcome: object) -> None:
        self.close()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return run(call, self._client)

'''
FIRST_SUBJECT = "    # Topics.\n"
"""From here on the methods of both faces are the same."""


def blocking_admin() -> str:
    """The text of blocking_admin.py."""
    text = SOURCE.read_text(encoding="utf-8")
    written = HEAD + imports_of(text) + FRAME
    done = text[: text.index(FIRST_SUBJECT)].count("\n")
    lines = text.splitlines(keepends=True)
    for method in methods_of(text):
        if method.lineno <= done:
            continue
        written += "".join(lines[done : method.body[0].end_lineno]) + call_of(method)
        done = method.end_lineno or 0
    return formatted(blocking(written))


def imports_of(text: str) -> str:
    imports = text[text.index("\nfrom __future__") : text.index("\nclass Admin")].rstrip() + "\n"
    for asynchronous, blocking in IMPORTS:
        assert asynchronous in imports, f"{SOURCE.name} no longer has {asynchronous!r}"
        imports = imports.replace(asynchronous, blocking)
    return imports


def methods_of(text: str) -> list[ast.AsyncFunctionDef]:
    classes = (each for each in ast.parse(text).body if isinstance(each, ast.ClassDef))
    return [each for each in next(classes).body if isinstance(each, ast.AsyncFunctionDef)]


def call_of(method: ast.AsyncFunctionDef) -> str:
    """The body: every argument is handed on as it was given."""
    positional = [each.arg for each in method.args.args[1:]]
    named = [f"{each.arg}={each.arg}" for each in method.args.kwonlyargs]
    given = ", ".join(positional + named)
    gives_nothing = isinstance(method.returns, ast.Constant) and method.returns.value is None
    answer = "" if gives_nothing else "return "
    return f"        {answer}self._run(self._client.{method.name}({given}))\n"


def blocking(text: str) -> str:
    """Signatures and examples without what only asyncio needs."""
    text = text.replace("    async def ", "    def ")
    text = re.sub(r"\(await (admin\.\w+\([^()]*\))\)", r"\1", text)
    return text.replace("await admin.", "admin.")


def formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
