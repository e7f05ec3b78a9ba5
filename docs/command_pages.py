"""The pages about commands, made of the commands' own rows: docs/reference/commands.md whole, and
the table in docs/commands.md."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from moldau.cli.catalogue import COMMANDS
from moldau.cli.help import groups_of, left_of, right_of
from moldau.cli.tool import Tool

DOCS = Path(__file__).parent
BIN = DOCS.parent / "bin"
BEGIN = "<!-- Written by `make docs` from the rows of the commands. -->\n"
END = "<!-- The end of what is written. -->\n"
PAGES = {
    "client-metrics": "monitoring.md#metrics-of-clients",
    "jmx": "monitoring.md#by-the-names-of-mbeans",
    "snapshot": "snapshots.md",
    "fork": "snapshots.md",
    "backup": "backup.md",
    "mirror": "mirroring.md",
    "sql": "tables.md#sql",
    "restore": "backup.md",
    "log-scrub": "#moldau-log-scrub",
    "doctor": "#moldau-doctor",
    "security": "security.md",
    "acls": "security.md",
    "delegation-tokens": "security.md",
    "zookeeper-server-start": "cluster.md",
    "zookeeper-security-migration": "security.md#zookeeper",
    "cluster": "cluster.md",
    "console": "console.md",
    "pipeline": "pipelines.md",
    "run-class": "../examples/README.md",
}
"""More to read about a command."""
OTHER_SCRIPTS = {
    "zookeeper-shell": ("zkCli.sh",),
    "zookeeper-server-status": ("zkServer.sh status",),
    "backup": ("backup-standalone.sh",),
    "restore": ("restore-standalone.sh",),
}


def tools() -> list[Tool]:
    return [import_module(module).TOOL for module, _ in COMMANDS.values()]


def commands_page() -> str:
    """The page as it stands, with its table anew."""
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


def table() -> str:
    lines = ["| Command | Apache Kafka's script | For |", "|---|---|---|"]
    for name, (_, sentence) in COMMANDS.items():
        more = f" ([more]({PAGES[name]}))" if name in PAGES else ""
        scripts = ", ".join(f"`{each}`" for each in scripts_of(name))
        lines.append(f"| [`{name}`](reference/commands.md#{name}) | {scripts} | {sentence}{more} |")
    return "\n".join(lines) + "\n"


def scripts_of(name: str) -> list[str]:
    own = [f"kafka-{name}.sh", f"{name}.sh"]
    found = [each for each in own if (BIN / each).exists()]
    return [*found, *OTHER_SCRIPTS.get(name, ())]


def reference(note: str) -> str:
    parts = [
        note,
        "# Commands and their flags\n",
        "What `moldau COMMAND --help` says. [docs/commands.md](../commands.md) tells what all of\n"
        "them have in common.\n",
    ]
    for tool in tools():
        parts += section(tool, "##")
        for each in (*tool.commands, *tool.beside):
            parts += section(each, "###")
    return "\n".join(parts)


def section(tool: Tool, marks: str) -> list[str]:
    usage = " ".join(word for word in (f"moldau {tool.name}", "[flags]", tool.words_usage) if word)
    parts = [f"{marks} {tool.name}\n", f"{plain(tool.does)}\n", f"```\n{usage}\n```\n"]
    rows = [
        f"| `{left_of(flag)}` | {plain(right_of(flag, tool))} |".replace("\\|", "&#124;")
        for title, flags in groups_of(tool)
        for flag in flags
        if title != "the answer"
    ]
    if rows:
        parts.append("\n".join(["| Flag | Meaning |", "|---|---|", *rows]) + "\n")
    if tool.notes:
        parts.append(plain(tool.notes.replace("\n", "\n\n")) + "\n")
    if tool.examples:
        lines = "\n".join(tool.examples)
        parts.append(f"```\n{lines}\n```\n")
    return parts


def plain(text: str) -> str:
    """As Markdown shows it: nothing in it is meant as a mark."""
    for mark in ("|", "*", "<", "["):
        text = text.replace(mark, f"\\{mark}")
    return text
