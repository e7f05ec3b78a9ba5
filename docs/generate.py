"""Writes the reference pages from the tables that the program itself reads; run by `make docs`.

The same tables always give the same pages, and a test compares them with what is committed, so
a page can never tell another story than the code.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from docs.blocking_admin import TARGET, blocking_admin
from docs.command_pages import commands_page, reference
from docs.pictures import PICTURES, pictures
from moldau.config.broker_config import BrokerConfig
from moldau.config.broker_settings.cluster_settings import ClusterSettings
from moldau.config.broker_settings.coordinator_settings import GroupSettings
from moldau.config.broker_settings.foreign_settings import ForeignSettings
from moldau.config.broker_settings.network_settings import NetworkSettings
from moldau.config.broker_settings.security_settings import SecuritySettings
from moldau.config.broker_settings.share_group_settings import ShareSettings
from moldau.config.broker_settings.storage_settings import LogSettings
from moldau.config.client_metrics_config import ClientMetricsConfig
from moldau.config.client_settings.admin_settings import AdminConfig
from moldau.config.client_settings.common_settings import ClientSettings
from moldau.config.client_settings.consumer_settings import ConsumerConfig
from moldau.config.client_settings.producer_settings import ProducerConfig
from moldau.config.group_config import GroupConfig
from moldau.config.setting_definition import DAY, HOUR, LONG_MAX, MINUTE, SECOND, Setting, Settings
from moldau.config.topic_config import TopicConfig
from moldau.controller.rules.feature_rules import FEATURES
from moldau.handlers.routes import ROUTES
from moldau.metrics.dialects import Dialect, written
from moldau.metrics.metric_definition import Metric
from moldau.metrics.table.all_metrics import METRICS
from moldau.model.errors import Error
from moldau.wire.apis import APIS

REFERENCE = Path(__file__).parent / "reference"
NOTE = "<!-- Written by `make docs` from {table}. Change the table, not this page. -->\n"

GROUPS: tuple[tuple[str, type[Settings]], ...] = (
    ("Identity, listeners and connections", NetworkSettings),
    ("Logs", LogSettings),
    ("Topics, replication, ZooKeeper, quotas and metrics", ClusterSettings),
    ("Groups and transactions", GroupSettings),
    ("Share groups", ShareSettings),
    ("Security", SecuritySettings),
    ("Parts of Apache Kafka that Moldau does not have", ForeignSettings),
)
TIMES = ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second"))
SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def pages() -> dict[Path, str]:
    """Every generated file by its path."""
    return {
        REFERENCE / "broker-configs.md": broker_configs(),
        REFERENCE / "topic-configs.md": topic_configs(),
        REFERENCE / "group-configs.md": group_configs(),
        REFERENCE / "producer-configs.md": client_configs("Producer", ProducerConfig),
        REFERENCE / "consumer-configs.md": client_configs("Consumer", ConsumerConfig),
        REFERENCE / "admin-configs.md": client_configs("Admin", AdminConfig),
        REFERENCE / "errors.md": errors(),
        REFERENCE / "api-versions.md": api_versions(),
        REFERENCE / "metrics.md": metrics(),
        REFERENCE / "files.md": files(),
        REFERENCE / "commands.md": reference(NOTE.format(table="src/moldau/cli")),
        REFERENCE.parent / "commands.md": commands_page(),
        TARGET: blocking_admin(),
        **pictures(),
    }


def files() -> str:
    """The file map: every module with the first sentence of its docstring."""
    source = REFERENCE.parent.parent / "src" / "moldau"
    parts = [NOTE.format(table="the modules' docstrings"), "# File map\n"]
    for folder in sorted({path.parent for path in source.rglob("*.py")}):
        rows = [
            (f"`{path.name}`", first_sentence(path))
            for path in sorted(folder.glob("*.py"))
            if path.name != "__init__.py"
        ]
        if rows:
            name = folder.relative_to(source.parent).as_posix()
            parts += [f"## {name}\n", markdown(("file", "what it is for"), rows)]
    return "\n".join(parts)


def first_sentence(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.])\s+(?=[A-Z])", paragraph)[0].replace("|", "\\|")


def broker_configs() -> str:
    parts = [
        NOTE.format(table="src/moldau/config/broker_settings"),
        "# Broker settings\n",
        "They stand in `server.properties`, one `key=value` per line, or on the command line as\n"
        "`--override key=value`. The column *changes* says whether a setting can be altered while\n"
        "the broker runs (`kafka-configs --alter`): for one broker, or for the whole cluster.\n"
        "`listener.name.<name>.<key>` sets a key for one listener. An unknown key is a warning at\n"
        "the start; a bad value stops the start with one sentence, and so does one that asks for\n"
        "what Moldau cannot do yet. A setting without effect says why, and is named in a line at\n"
        "the start when it is given another value than its default.\n",
    ]
    for title, table in GROUPS:
        parts.append(f"## {title}\n")
        rows = [
            (
                f"`{row.key}`",
                row.kind.name.lower(),
                default(row),
                limits(row),
                changes(row),
                doc(row),
            )
            for row in table.rows.values()
            if not row.hidden
        ]
        parts.append(markdown(("Key", "Type", "Default", "Allowed", "Changes", "Meaning"), rows))
    listed = sum(not row.hidden for row in BrokerConfig.rows.values())
    parts.append(f"{listed} settings.\n")
    return "\n".join(parts)


def topic_configs() -> str:
    return "\n".join(
        [
            NOTE.format(table="src/moldau/config/topic_config.py"),
            "# Topic settings\n",
            "They are given when a topic is created and can be altered at any time. What a topic\n"
            "does not set it takes from the broker's setting beside it.\n",
            with_broker_settings(TopicConfig),
        ]
    )


def group_configs() -> str:
    return "\n".join(
        [
            NOTE.format(table="src/moldau/config/group_config.py and client_metrics_config.py"),
            "# Settings of groups and client metrics\n",
            "`kafka-configs --entity-type groups` sets them for one group. What a group does not\n"
            "set it takes from the broker's setting beside it, and that setting's `min` and `max`\n"
            "bound what it may be given.\n",
            with_broker_settings(GroupConfig),
            "## Subscriptions to client metrics\n",
            "`kafka-client-metrics` makes and deletes them.\n",
            with_broker_settings(ClientMetricsConfig),
        ]
    )


def client_configs(client: str, table: type[ClientSettings]) -> str:
    """Its own settings first; then those that all clients have, as far as it keeps them."""
    shared = {key for key, row in ClientSettings.rows.items() if table.rows.get(key) is row}
    own = [row for key, row in table.rows.items() if key not in shared]
    common = [row for key, row in table.rows.items() if key in shared]
    return "\n".join(
        [
            NOTE.format(table="src/moldau/config/client_settings"),
            f"# {client} settings\n",
            f"`moldau.{client}` and `moldau.aio.{client}` take them as a mapping with these keys,\n"
            "or as keywords with underscores for dots.\n",
            setting_rows(own),
            "## Settings that all clients have\n",
            setting_rows(common),
        ]
    )


def setting_rows(listed: Iterable[Setting]) -> str:
    rows = [
        (f"`{row.key}`", row.kind.name.lower(), default(row), limits(row), doc(row))
        for row in listed
        if not row.hidden
    ]
    return markdown(("Key", "Type", "Default", "Allowed", "Meaning"), rows)


def with_broker_settings(table: type[Settings]) -> str:
    rows = [
        (
            f"`{row.key}`",
            row.kind.name.lower(),
            default(row),
            limits(row),
            f"`{row.synonym}`" if row.synonym else "",
            doc(row),
        )
        for row in table.rows.values()
        if not row.hidden
    ]
    return markdown(("Key", "Type", "Default", "Allowed", "Broker setting", "Meaning"), rows)


def errors() -> str:
    rows = [
        (str(error.value), f"`{error.name}`", "yes" if error.is_retriable else "", error.sentence)
        for error in Error
    ]
    return "\n".join(
        [
            NOTE.format(table="src/moldau/model/errors.py"),
            "# Errors\n",
            "Codes and names are Apache Kafka's. *Retry* marks those that may go away by\n"
            "themselves, so that clients try again.\n",
            markdown(("Code", "Name", "Retry", "Meaning"), rows),
        ]
    )


def api_versions() -> str:
    names = {api.key: api for api in APIS}
    rows = []
    for key, route in sorted(ROUTES.items()):
        api = names[key]
        flexible = "" if api.flexible_from is None else f"{api.flexible_from}"
        served = f"{route.version_min} to {route.version_max}"
        rows.append((str(key), api.name, served, flexible))
    return "\n".join(
        [
            NOTE.format(table="src/moldau/handlers/routes.py"),
            "# Requests and versions\n",
            "What ApiVersions tells clients, and all that the broker answers. From the version in\n"
            "the last column on, a request uses the compact encoding with tagged fields.\n",
            markdown(("Key", "Request", "Versions", "Flexible from"), rows),
            "## Features\n",
            "What clients may use once the whole cluster has it. `kafka-features` shows and\n"
            "changes the levels; a cluster begins at the highest of each.\n",
            markdown(
                ("Feature", "Levels", "Meaning"),
                [(f"`{f.name}`", f"{f.level_min} to {f.level_max}", f.doc) for f in FEATURES],
            ),
        ]
    )


def metrics() -> str:
    parts = [
        NOTE.format(table="src/moldau/metrics/table"),
        "# Metrics\n",
        "What a broker tells at `metrics.http.listener` ([docs/monitoring.md](../monitoring.md)).\n"
        "A summary has quantiles as the label `quantile` (0.50 to 0.999, of the last minutes) and\n"
        "how many were counted since the start under the name with `_count`. With\n"
        "`metrics.http.dialect=confluent` the second name is used, where it is another.\n",
    ]
    paths = (("/metrics", False), ("/metrics/partitions", True))
    for path, by_partition in paths:
        rows = [
            (
                names_of(row),
                row.kind.value,
                ", ".join(f"`{tag}`" for tag in row.tags),
                row.sentence,
                row.counted,
                f"`{row.bean}`" if ":" in row.bean else "",
            )
            for row in METRICS
            if row.by_partition is by_partition
        ]
        head = ("Name", "Type", "Labels", "Meaning", "Counted by", "MBean of Apache Kafka")
        parts += [f"## {path}\n", markdown(head, rows)]
    return "\n".join(parts)


def names_of(row: Metric) -> str:
    names = [written(row, dialect).name for dialect in Dialect if row.only in ("", dialect.value)]
    return "<br>".join(f"`{name}`" for name in dict.fromkeys(names))


def markdown(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def doc(row: Setting) -> str:
    sentence = row.sentence.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    if row.aliases:
        sentence += " Also read: " + ", ".join(f"`{alias}`" for alias in row.aliases) + "."
    return sentence


def limits(row: Setting) -> str:
    if not row.one_of:
        return row.limits.replace("or ", "or&nbsp;")
    return ", ".join(f"`{value}`" for value in row.one_of)


def changes(row: Setting) -> str:
    return {"read-only": "", "per-broker": "per broker", "cluster-wide": "cluster"}[row.scope.value]


def default(row: Setting) -> str:
    text = row.default_text
    if text is None:
        return ""
    if text == "":
        return "empty"
    # A space lets browsers break long lists, which would otherwise stretch the table.
    shown = f"`{text}`".replace(",", ", ")
    spoken = in_words(row)
    return f"{shown} ({spoken})" if spoken else shown


def in_words(row: Setting) -> str:
    value = row.default
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return ""
    if value == LONG_MAX:
        return "no limit"
    if row.key.endswith((".ms", ".relogin")):
        return spoken(value, TIMES, plural="s")
    if row.key.endswith((".bytes", ".size")):
        return spoken(value, SIZES)
    return ""


def spoken(value: int, units: Iterable[tuple[int, str]], plural: str = "") -> str:
    """In the largest unit that divides it, or nothing."""
    for size, unit in units:
        if value % size == 0:
            count = value // size
            return f"{count} {unit}{plural if count > 1 else ''}"
    return ""


def main() -> int:
    REFERENCE.mkdir(exist_ok=True)
    PICTURES.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
