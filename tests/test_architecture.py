"""The layers, the pure modules and the size limits of ARCHITECTURE.md, checked on the source.

A module may import only from lower lines of LAYERS; packages on one line are strangers to one
another unless they are vocabulary. Reading beats running here: `ast` sees lazy imports too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "moldau"

LAYERS: list[set[str]] = [
    {"model"},
    {"config", "records"},
    {"wire"},
    {"net", "security", "metrics"},
    {"storage", "metadata"},
    {"engine"},
    {"replication"},
    {"controller", "groups", "transactions"},
    {"handlers"},
    {"broker"},
    {"client"},
    {"cli", "console", "pipelines", "testing", "aio", "errors"},
    {"main"},
]
VOCABULARY = {"model", "config", "records", "wire", "net", "security", "metrics"}
SERVER_SIDE = {
    "storage",
    "metadata",
    "engine",
    "replication",
    "controller",
    "groups",
    "transactions",
    "handlers",
    "broker",
}
CLIENT_SIDE = {"client", "console", "pipelines"}
EXCEPTIONS = {
    # The command that starts a broker has to import it.
    ("cli/server_start.py", "broker"),
    # So does the one that prepares a broker's first start.
    ("cli/storage.py", "broker"),
    # The command that looks into pipelines is an edge over an edge.
    ("cli/pipeline.py", "pipelines"),
}

PURE_PACKAGES = {
    "model",
    "config",
    "wire",
    "records",
    "security",
    "groups",
    "transactions",
    "controller",
}
PURE_MODULES = {
    "storage/producer_state.py",
    "storage/epoch_history.py",
    "storage/retention.py",
    "storage/compaction_plan.py",
    "storage/compaction_transactions.py",
    "engine/machine.py",
    "engine/timing_wheel.py",
    "metadata/fields.py",
    "metadata/paths.py",
    "replication/partition.py",
    "replication/fetch_sessions.py",
    "replication/isr.py",
    "replication/following.py",
    "replication/cluster_view.py",
    "replication/read_replica.py",
    "replication/throttle.py",
    "transactions/producer_ids.py",
    "broker/quotas.py",
    "cli/doctor_addresses.py",
    "cli/doctor_evidence.py",
    "cli/doctor_groups.py",
    "cli/doctor_partitions.py",
}
IMPURE_IN_PURE_PACKAGES = {
    "controller/metadata_journal.py",
    "controller/candidacy.py",
    "controller/deliveries.py",
    "controller/incumbency.py",
    "controller/office.py",
    "controller/tree_events.py",
}
IMPURE_IMPORTS = {"asyncio", "socket", "os", "time", "random", "threading", "logging", "kazoo"}

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50
LONG_TABLES = {
    # Tables of rows, not code: splitting them would only hide rows.
    "config/broker.py",
}

FILES = sorted(SOURCE.rglob("*.py"))


def package_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


def moldau_packages(tree: ast.AST) -> Iterator[str]:
    for module in imported_modules(tree):
        parts = module.split(".")
        if parts[0] == "moldau" and len(parts) > 1:
            yield parts[1]


def layer_of(package: str) -> int:
    return next(i for i, layer in enumerate(LAYERS) if package in layer)


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_module_imports_only_from_lower_layers(path: Path) -> None:
    package = package_of(path)
    if package == "__init__":
        return
    for imported in moldau_packages(ast.parse(path.read_text())):
        if imported == package or (relative(path), imported) in EXCEPTIONS:
            continue
        assert layer_of(imported) < layer_of(package), f"{relative(path)} imports {imported}"
        if package in CLIENT_SIDE:
            assert imported not in SERVER_SIDE, f"{relative(path)} reaches into {imported}"
        if package in SERVER_SIDE:
            assert imported not in CLIENT_SIDE, f"{relative(path)} reaches into {imported}"


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_pure_modules_do_no_io_and_ask_no_clock(path: Path) -> None:
    name = relative(path)
    pure = package_of(path) in PURE_PACKAGES or name in PURE_MODULES
    if not pure or name in IMPURE_IN_PURE_PACKAGES:
        return
    roots = {module.split(".")[0] for module in imported_modules(ast.parse(path.read_text()))}
    assert not roots & IMPURE_IMPORTS


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text()
    if relative(path) not in LONG_TABLES:
        assert len(text.splitlines()) <= FILE_LINES_MAX, "find the second subject's name"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


def test_broad_excepts_appear_only_where_the_style_allows_them() -> None:
    allowed = {
        "broker/dispatch.py",
        "engine/engine.py",
        "broker/background.py",
        "client/user_code.py",
    }
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler):
                broad = node.type is None or (
                    isinstance(node.type, ast.Name)
                    and node.type.id in {"Exception", "BaseException"}
                )
                assert not broad or relative(path) in allowed, f"{relative(path)}:{node.lineno}"
