"""The layers, the pure rooms and the size limits of ARCHITECTURE.md, checked on the source.

The table of layers is read from that page. A module may import only from lower lines of it;
packages on one line are strangers to one another. Reading beats running here: `ast` sees lazy
imports too. Every rule is also shown a piece of source that breaks it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

import pytest

PROJECT = Path(__file__).parent.parent
SOURCE = PROJECT / "src" / "moldau"
BOUNDARY = "---"
"""Starts the line of the table that no record passes except over a socket."""
MAY_OPEN_FILES = "*"
"""Follows an edge that works on a broker's own files, or starts one."""
VOCABULARY = ("net", "wire", "config", "records", "security", "metrics", "model")


def layer_lines() -> list[str]:
    """The table of ARCHITECTURE.md, from the lowest line up."""
    page = (PROJECT / "ARCHITECTURE.md").read_text()
    block = re.search(r"## Layers.*?```\n(.*?)```", page, re.DOTALL)
    assert block is not None, "ARCHITECTURE.md has no table of layers"
    return block[1].strip().splitlines()[::-1]


def layers() -> tuple[list[set[str]], set[str], set[str]]:
    """The packages of each line, those that run in a broker, and those that may only speak to one
    over the wire."""
    lines: list[set[str]] = []
    inside: set[str] = set()
    outside: set[str] = set()
    is_above = False
    for line in layer_lines():
        if line.startswith(BOUNDARY):
            is_above = True
            continue
        words = [word.strip() for word in re.split(r" {2,}", line)[0].split("|")]
        packages = {word.removesuffix(MAY_OPEN_FILES).strip() for word in words}
        lines.append(packages)
        if is_above:
            outside.update(word for word in words if not word.endswith(MAY_OPEN_FILES))
        else:
            inside.update(packages - set(VOCABULARY))
    return lines, inside, outside


LAYERS, SERVER_SIDE, CLIENT_SIDE = layers()
EXCEPTIONS = {
    # The command that starts a broker has to import it.
    ("cli/servers/server_start.py", "broker"),
    # So does the one that prepares a broker's first start.
    ("cli/files/storage.py", "broker"),
    # The command that looks into pipelines is an edge over an edge.
    ("cli/pipeline.py", "pipelines"),
}

PURE_PACKAGES = {
    "model",
    "config",
    "wire",
    "records",
    "security",
    "metrics",
    "groups",
    "transactions",
    "controller",
}
MACHINES = (
    "controller",
    "controller/rules",
    "controller/broker_requests",
    "groups",
    "groups/classic",
    "transactions",
)
"""Where decisions are made: there not even a callback may bring in what was not told."""
PURE_MODULES = {
    "storage/log_state/producer_state.py",
    "storage/log_state/leader_epoch_history.py",
    "storage/log/log_retention.py",
    "storage/compaction/compaction_plan.py",
    "storage/compaction/compaction_transactions.py",
    "engine/machine.py",
    "engine/timing_wheel.py",
    "metadata/node_fields.py",
    "metadata/paths.py",
    "replication/partition.py",
    "replication/fetch_sessions.py",
    "replication/in_sync_replicas.py",
    "replication/following/fetch_plan.py",
    "replication/metadata_cache.py",
    "replication/preferred_read_replica.py",
    "replication/following/replication_throttle.py",
    "transactions/producer_id_blocks.py",
    "diagnosis/ill_addresses.py",
    "diagnosis/evidence.py",
    "diagnosis/ill_groups.py",
    "diagnosis/ill_partitions.py",
    "diagnosis/diagnosing.py",
    "diagnosis/never_lose.py",
    "profiles.py",
    "recovery/recovery_machine.py",
    "recovery/snapshot_records.py",
    "recovery/transactional_ids.py",
}
IMPURE_IN_PURE_PACKAGES = {
    # A filter of log lines, for everybody who writes some; it writes none.
    "model/log_line_limit.py",
}
IMPURE_IMPORTS = {"asyncio", "socket", "os", "time", "random", "threading", "logging", "kazoo"}

FILE_LINES_MAX = 450
FUNCTION_LINES_MAX = 50
LONG_TABLES = {
    # Tables of rows, not code: splitting them would only hide rows.
    "config/broker_config.py",
    # One method per administrative request: the list is Kafka's.
    "client/admin/asyncio_admin.py",
    "client/admin/blocking_admin.py",
}
LONG_SUBJECTS = {
    # One object with one state: what reads it and what writes it belong side by side.
    "storage/log/partition_log.py": 560,
}

FOLDER_FILES_MAX = 22
LARGE_FOLDERS = {
    # One file per family of requests: the list is Kafka's.
    "wire/messages",
}

BROAD = {"Exception", "BaseException"}
BROAD_ALLOWED = {
    "broker/dispatch.py",
    "broker/background_jobs.py",
    "engine/engine.py",
    # Where a broker calls an authorizer of its operator.
    "broker/access/own_authorizer.py",
    # Where a broker loads and calls reporters, its operator's among them.
    "broker/monitoring/reporting/own_reporter.py",
    "broker/monitoring/reporting/reporter_thread.py",
    # Where the client library calls code of its user.
    "client/shared/user_callbacks.py",
    "client/consumer/blocking_consumer.py",
}

PUBLIC = (
    "moldau",
    "moldau.aio",
    "moldau.admin",
    "moldau.serialization",
    "moldau.authorization",
    "moldau.reporting",
    "moldau.errors",
    "moldau.compat.kafka_python",
    "moldau.testing",
    "moldau.pipelines",
    "moldau.recovery",
    "moldau.tables",
    "moldau.profiles",
)
"""What users import. Everything else may change without notice."""

IMPORT = re.compile(
    r"^ *(?:from (moldau[.\w]*) import (\([^)]*|.*)|import (moldau[.\w]*))", re.MULTILINE
)
COMMENT = re.compile("#.*")
FILES = sorted(SOURCE.rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def layer_of(package: str) -> int:
    found = [number for number, packages in enumerate(LAYERS) if package in packages]
    assert found, f"{package} is not in the table of layers in ARCHITECTURE.md"
    return found[0]


def imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "moldau":
                yield from (f"moldau.{alias.name}" for alias in node.names)
            yield node.module


def moldau_packages(tree: ast.AST) -> Iterator[str]:
    for module in imported_modules(tree):
        parts = module.split(".")
        if parts[0] == "moldau" and len(parts) > 1 and (parts[1] in PACKAGES):
            yield parts[1]


PACKAGES = {package_of(path) for path in FILES} - {"__init__"}


def imports_upwards(name: str, text: str) -> Iterator[str]:
    package = name.split("/")[0].removesuffix(".py")
    if package == "__init__":
        return
    for imported in moldau_packages(ast.parse(text)):
        if imported == package or (name, imported) in EXCEPTIONS:
            continue
        if layer_of(imported) >= layer_of(package):
            yield f"{name} imports {imported}, which is not below it"
        elif package in CLIENT_SIDE and imported in SERVER_SIDE:
            yield f"{name} reaches through the wire into {imported}"


def is_there(module: str) -> bool:
    place = SOURCE.parent.joinpath(*module.split("."))
    return place.is_dir() or place.with_suffix(".py").exists()


def missing_imports(text: str) -> Iterator[str]:
    """Of modules, or of names in them, that are not there; a lazy one would be found out by a
    user."""
    for found in IMPORT.finditer(text):
        module, names = found[1] or found[3], COMMENT.sub("", found[2] or "").strip("(")
        if not is_there(module):
            yield module
            continue
        offered = names_in(module)
        for name in filter(None, map(str.strip, names.split(","))):
            name = name.split()[0]
            if offered is not None and name not in offered and not is_there(f"{module}.{name}"):
                yield f"{module}.{name}"


@cache
def names_in(module: str) -> frozenset[str] | None:
    """What a module defines or imports; None if it finds names when it is asked for them."""
    place = SOURCE.parent.joinpath(*module.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())] if path.exists() else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            # What stands inside of it is not the module's.
            names.add(node.name)
            continue
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
        waiting += ast.iter_child_nodes(node)
    return None if "__getattr__" in names else frozenset(names)


def impurities(text: str) -> Iterator[str]:
    """What a module may not hold that decides and does nothing: I/O, a clock, an await, a lock."""
    tree = ast.parse(text)
    roots = {module.split(".")[0] for module in imported_modules(tree)}
    yield from sorted(roots & IMPURE_IMPORTS)
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncWith | ast.AsyncFor):
            yield f"line {node.lineno} waits"


def is_asking(node: ast.AST) -> bool:
    """Whether it is the type of something that is asked without being given anything: a machine
    that holds one reads what nobody told it, like an image that changes meanwhile."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Callable"
        and isinstance(node.slice, ast.Tuple)
        and isinstance(node.slice.elts[0], ast.List)
        and not node.slice.elts[0].elts
    )


def names_of_callables() -> set[str]:
    """What modules call their callables, so that a machine is not handed one by another name."""
    named = re.compile(r"^(\w+) = Callable\[", re.MULTILINE)
    return {name for path in FILES for name in named.findall(path.read_text())}


CALLABLES = {"Callable", *names_of_callables()}


def is_callable(annotation: ast.expr | None) -> bool:
    words = set() if annotation is None else set(re.findall(r"\w+", ast.unparse(annotation)))
    return not words.isdisjoint(CALLABLES)


def side_doors(name: str, text: str) -> Iterator[str]:
    """How a machine could wait, lock or look at the world without an `import asyncio`."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if is_asking(node):
            yield f"line {node.lineno} asks instead of being told"
        elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
            if any(is_callable(each.annotation) for each in node.args.args + node.args.kwonlyargs):
                yield f"line {node.lineno} keeps a way to ask somebody"
        elif isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    for module in imported_modules(tree):
        path = "/".join(module.split(".")[1:]) + ".py"
        if module.startswith("moldau.") and (SOURCE / path).exists() and not is_pure(path):
            yield f"{name} takes from {module}, which is not pure"


def _is_broad(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    if isinstance(caught, ast.Tuple):
        return any(_is_broad(each) for each in caught.elts)
    name = caught.attr if isinstance(caught, ast.Attribute) else getattr(caught, "id", "")
    return name in BROAD


def _is_exit(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return is_function and node.name in ("__exit__", "__aexit__")


def _may_swallow(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether an `__exit__` can return something that is true."""
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    told = [value for value in returned if value is not None]
    return any(not (isinstance(v, ast.Constant) and not v.value) for v in told)


def broad_catches(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type):
            yield f"line {node.lineno}: except"
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else None
            name = called or getattr(node.func, "id", "")
            if name == "suppress" and any(_is_broad(each) for each in node.args):
                yield f"line {node.lineno}: suppress"
        elif _is_exit(node) and _may_swallow(node):
            yield f"line {node.lineno}: an exit that may swallow"


def too_long(name: str, text: str) -> Iterator[str]:
    lines = len(text.splitlines())
    if lines > LONG_SUBJECTS.get(name, FILE_LINES_MAX) and name not in LONG_TABLES:
        yield f"{lines} lines: find the second subject's name"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield f"{node.name} has {length} lines"


def unexplained_names(module: object) -> Iterator[str]:
    """What a public module offers without a word, or without saying that it offers it."""
    offered = getattr(module, "__all__", None)
    if not offered:
        yield "no __all__"
        return
    for name in offered:
        thing = getattr(module, name, None)
        if thing is None:
            yield f"{name} is offered and not there"
        elif callable(thing) and not (thing.__doc__ or "").strip():
            yield f"{name} has no docstring"


def is_pure(name: str) -> bool:
    if name in IMPURE_IN_PURE_PACKAGES:
        return False
    return name.split("/")[0] in PURE_PACKAGES or name in PURE_MODULES


def flaws(
    look: Callable[[str, str], Iterator[object]], paths: Iterable[Path] = FILES
) -> dict[str, list[object]]:
    """What `look` finds in each file, by its name. One test for all files: thousands of tests
    would take longer than what they look at."""
    found = {relative(path): list(look(relative(path), path.read_text())) for path in paths}
    return {name: rows for name, rows in found.items() if rows}


def test_modules_import_only_from_lower_layers() -> None:
    assert flaws(imports_upwards) == {}


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "docs", "examples"])
def test_what_is_imported_is_there(folder: str) -> None:
    paths = sorted((PROJECT / folder).rglob("*.py"))
    missing = {str(path): [*missing_imports(path.read_text())] for path in paths}
    assert not {path: names for path, names in missing.items() if names}


def test_pure_modules_do_no_io_ask_no_clock_and_wait_for_nothing() -> None:
    pure = [path for path in FILES if is_pure(relative(path))]
    assert len(pure) > 100
    assert flaws(lambda _, text: impurities(text), pure) == {}


@pytest.mark.parametrize("package", MACHINES)
def test_machines_have_no_side_door_to_the_world(package: str) -> None:
    found = [
        flaw
        for path in sorted((SOURCE / package).rglob("*.py"))
        for flaw in (*impurities(path.read_text()), *side_doors(relative(path), path.read_text()))
    ]
    assert not found


def test_files_and_functions_stay_short() -> None:
    assert flaws(too_long) == {}


def test_broad_excepts_appear_only_where_the_style_allows_them() -> None:
    others = [path for path in FILES if relative(path) not in BROAD_ALLOWED]
    assert flaws(lambda _, text: broad_catches(text), others) == {}


@pytest.mark.parametrize("name", PUBLIC)
def test_what_users_import_is_listed_and_explained(name: str) -> None:
    assert not list(unexplained_names(import_module(name)))


def test_no_folder_is_a_drawer() -> None:
    counts = Counter(path.parent for path in FILES if path.name != "__init__.py")
    large = {folder.relative_to(SOURCE).as_posix(): n for folder, n in counts.items()}
    assert not {
        name: n for name, n in large.items() if n > FOLDER_FILES_MAX and name not in LARGE_FOLDERS
    }


def test_every_exception_is_still_needed() -> None:
    listed = {*PURE_MODULES, *IMPURE_IN_PURE_PACKAGES, *LONG_TABLES, *BROAD_ALLOWED}
    listed |= {*LONG_SUBJECTS}
    listed |= {name for name, _ in EXCEPTIONS}
    assert not {name for name in listed if not (SOURCE / name).exists()}
    assert not {name for name in LARGE_FOLDERS if not (SOURCE / name).is_dir()}


BREAKS: dict[str, tuple[Callable[[str], Iterator[str]], str]] = {
    "an import upwards": (
        lambda text: imports_upwards("storage/log/x.py", text),
        "def late():\n    from moldau.handlers import routes",
    ),
    "an import of a neighbour": (
        lambda text: imports_upwards("groups/x.py", text),
        "import moldau.transactions.transaction_machine",
    ),
    "a client that opens a broker's rooms": (
        lambda text: imports_upwards("client/x.py", text),
        "from moldau.storage.log import segment",
    ),
    "an import of a module that is gone": (
        missing_imports,
        "def late():\n    from moldau.storage.log import drawer",
    ),
    "an import of a name that is gone": (
        missing_imports,
        "from moldau.model.names import (\n    TopicId,  # this one is there\n    Drawer,\n)",
    ),
    "a clock in a pure module": (impurities, "import time"),
    "a coroutine in a pure module": (impurities, "async def decide(): ..."),
    "a lock by a side door": (
        impurities,
        "async def one_at_a_time(turn):\n    async with turn:\n        pass",
    ),
    "a lock from a neighbour that is not pure": (
        lambda text: side_doors("groups/x.py", text),
        "from moldau.engine.timers import Timers",
    ),
    "a live image through a callback": (
        lambda text: side_doors("transactions/x.py", text),
        "class Machine:\n    def __init__(self, image: Callable[[], ClusterImage]): ...",
    ),
    "a look into a live image through a callback": (
        lambda text: side_doors("transactions/x.py", text),
        "class Machine:\n    def __init__(self, leader_of: Callable[[str], int]): ...",
    ),
    "a callback by another name": (
        lambda text: side_doors("groups/x.py", text),
        "class Machine:\n    def __init__(self, prefer: Prefer): ...",
    ),
    "a bare except": (broad_catches, "try: work()\nexcept: pass"),
    "a broad except": (broad_catches, "try: work()\nexcept Exception: pass"),
    "a broad except in a tuple": (
        broad_catches,
        "try: work()\nexcept (OSError, builtins.Exception): pass",
    ),
    "suppress as a broad except": (broad_catches, "with contextlib.suppress(Exception): work()"),
    "an exit that swallows": (
        broad_catches,
        "class Guard:\n    def __exit__(self, *outcome):\n        return outcome[0] is not None",
    ),
    "a long file": (lambda text: too_long("x.py", text), "x = 1\n" * (FILE_LINES_MAX + 1)),
    "a long function": (
        lambda text: too_long("x.py", text),
        "def long():\n" + "    pass\n" * FUNCTION_LINES_MAX,
    ),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_each_rule_sees_what_breaks_it(broken: str) -> None:
    rule, text = BREAKS[broken]
    assert list(rule(text))


def test_a_public_name_without_a_word_is_seen() -> None:
    silent = type("Silent", (), {"__doc__": None})
    offers = ModuleType("offers")
    assert list(unexplained_names(offers)) == ["no __all__"]
    offers.__dict__.update(__all__=["Silent", "Gone"], Silent=silent)
    assert list(unexplained_names(offers)) == [
        "Silent has no docstring",
        "Gone is offered and not there",
    ]
