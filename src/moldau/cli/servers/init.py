"""`moldau init`: scripts, settings, examples and units in a folder of the user's own.

They travel inside the wheel as `moldau/starter`; in a checkout they stand beside the source. What
is in the folder already stays as it is, so a second call only adds what is missing.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Given
from moldau.cli.output import Output
from moldau.cli.tool import JSON, Tool, run_tool

PARTS = ("bin", "config", "examples", "services")
COMMAND = "bin/moldau"
"""A link to the command that made the folder: the scripts beside it need no path then."""
SCRIPT_MODE = 0o755
IGNORED = {"__pycache__"}


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def init(given: Given, out: Output) -> None:
    target = Path(given.words[0] if given.words else ".")
    try:
        made, kept = lay_out(starter(), target, this_command())
    except OSError as error:
        raise CommandFault(f"Cannot write to {target}: {error.strerror or error}") from error
    if given.has("json"):
        out.json({"directory": str(target.resolve()), "made": made, "kept": kept})
        return
    files = "file" if len(made) == 1 else "files"
    out.line(f"Made {len(made)} {files} in {target}: {', '.join(_parts(made)) or 'all was there'}.")
    if kept:
        out.line(f"Kept {len(kept)} that were there already.")
    out.line("Next:")
    out.line(f"  cd {target}")
    out.line("  bin/kafka-server-start.sh config/server.properties")


def starter() -> Path:
    """What is to be copied. Raises CommandFault if this installation has none."""
    package = Path(__file__).resolve().parents[2]
    for place in (package / "starter", package.parents[1]):
        if all((place / part).is_dir() for part in PARTS):
            return place
    raise CommandFault(
        f"There is nothing to lay out: {package / 'starter'} is missing. Install Moldau again."
    )


def this_command() -> Path | None:
    """The `moldau` of this installation: beside the interpreter, or on the path."""
    beside = Path(sys.executable).with_name("moldau")
    if beside.exists():
        return beside
    found = shutil.which("moldau")
    return Path(found) if found else None


def lay_out(origin: Path, target: Path, command: Path | None) -> tuple[list[str], list[str]]:
    """The files that were made, and those that were there; relative to `target`."""
    made, kept = [], []
    for name in _files(origin):
        path = target / name
        if path.exists() or path.is_symlink():
            kept.append(name)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(origin / name, path)
        if path.suffix == ".sh" or (origin / name).stat().st_mode & 0o100:
            path.chmod(SCRIPT_MODE)
        made.append(name)
    link = target / COMMAND
    if command is not None and not (link.exists() or link.is_symlink()):
        link.symlink_to(command.absolute())
        made.append(COMMAND)
    return made, kept


def _files(origin: Path) -> Iterator[str]:
    for part in PARTS:
        for path in sorted((origin / part).rglob("*")):
            if path.is_file() and not IGNORED.intersection(path.parts):
                yield path.relative_to(origin).as_posix()


def _parts(names: Sequence[str]) -> list[str]:
    return sorted({f"{name.split('/')[0]}/" for name in names})


TOOL = Tool(
    name="init",
    does="Lays out a folder to work in: Kafka's scripts in bin/, settings in config/, examples, "
    "and units for systemd in services/. What is there already stays as it is.",
    flags=(JSON,),
    main=init,
    words_max=1,
    words_usage="[DIR]",
    needs_words=False,
    examples=(
        "moldau init my-kafka",
        "cd my-kafka && bin/kafka-server-start.sh config/server.properties",
    ),
)
