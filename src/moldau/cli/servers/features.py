"""`moldau features`: which features of the protocol are in force, as kafka-features.sh shows."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.cli.answers import fault_of
from moldau.cli.command_clients import open_admin
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool

METADATA_VERSION = "metadata.version"
RELEASES = (
    # Levels 7 and up, as Apache Kafka numbers the versions of its metadata.
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0"),
    *("4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0"),
)
FIRST_LEVEL = 7


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def describe(given: Given, out: Output) -> None:
    with open_admin(given, out) as admin:
        found = admin.describe_features()
    names = sorted({*found.supported, *found.finalized})
    rows = []
    for name in names:
        supported, finalized = found.supported.get(name), found.finalized.get(name)
        row = (
            name,
            level_text(name, supported.min_version if supported else 0),
            level_text(name, supported.max_version if supported else 0),
            level_text(name, finalized.max_version if finalized else 0),
        )
        rows.append(row)
    if given.has("json"):
        keys = ("feature", "supportedMinVersion", "supportedMaxVersion", "finalizedVersionLevel")
        out.json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    epoch = found.finalized_epoch if found.finalized_epoch >= 0 else "-"
    for name, low, high, level in rows:
        out.line(
            f"Feature: {name:<42}SupportedMinVersion: {low:<17}SupportedMaxVersion: {high:<17}"
            f"FinalizedVersionLevel: {level:<17}Epoch: {epoch}"
        )


def level_text(name: str, level: int) -> str:
    if name != METADATA_VERSION:
        return str(level)
    number = level - FIRST_LEVEL
    return RELEASES[number] if 0 <= number < len(RELEASES) else f"UNKNOWN [{level}]"


def level_of(name: str, text: str) -> int:
    if name == METADATA_VERSION and text in RELEASES:
        return RELEASES.index(text) + FIRST_LEVEL
    if not text.isdigit():
        raise CommandFault(f"Can't parse feature=level string {name}={text}: {text} is no level")
    return int(text)


def update(given: Given, out: Output) -> int:
    from moldau.client.admin.admin_results import UpgradeType

    levels = {}
    for text in given.texts("feature"):
        name, _, level = text.partition("=")
        levels[name] = 0 if given.command == "disable" else level_of(name, level)
    if given.command != "disable" and given.has("metadata"):
        levels[METADATA_VERSION] = level_of(METADATA_VERSION, given.text("metadata"))
    if not levels:
        raise UsageFault("You must specify at least one feature with --feature")
    kind = UpgradeType.UPGRADE
    if given.command != "upgrade":
        kind = UpgradeType.UNSAFE_DOWNGRADE if given.has("unsafe") else UpgradeType.SAFE_DOWNGRADE
    with open_admin(given, out) as admin:
        dry = given.has("dry-run")
        results = admin.update_features(
            levels, upgrade_type=kind, validate_only=dry, raise_errors=False
        )
    can, done = ("can be", "would be") if given.has("dry-run") else ("was", "was")
    if out.is_json:
        out.json(
            [
                {
                    "feature": name,
                    "level": levels[name],
                    "dryRun": dry,
                    "error": fault_of(result) if isinstance(result, Exception) else None,
                }
                for name, result in sorted(results.outcomes.items())
            ]
        )
    for name, result in sorted(results.outcomes.items()):
        new = levels[name]
        if isinstance(result, Exception):
            out.line(f"Could not {given.command} {name} to {new}. {result}")
        elif new == 0:
            out.line(f"{name} {can} disabled.")
        else:
            out.line(f"{name} {done} {given.command}d to {new}.")
    if results.errors:
        raise CommandFault(
            f"{len(results.errors)} out of {len(results.outcomes)} operation(s) failed."
        )
    return 0


def nothing(given: Given, out: Output) -> None:
    """The sub-commands do the work."""


FEATURE = Flag(
    "--feature", "A feature and its level.", takes="NAME=LEVEL", repeats=True, many=False
)
DRY_RUN = Flag("--dry-run", "Only ask whether it would work; nothing is changed.")
METADATA = Flag("--metadata", "The level of metadata.version.", takes="LEVEL", hidden=True)
UNSAFE = Flag("--unsafe", "Do it even if data may be lost.")
TOOL = Tool(
    name="features",
    does="Shows and changes the features that the brokers of a cluster have switched on.",
    flags=(
        BOOTSTRAP,
        Flag("--bootstrap-controller", takes="HOST:PORT", hidden=True),
        COMMAND_CONFIG,
        JSON,
    ),
    main=nothing,
    commands=(
        Tool(
            "features describe",
            "Shows which features are in force, and which levels the brokers know.",
            (),
            describe,
            examples=("moldau features --bootstrap-server localhost:9092 describe",),
        ),
        Tool(
            "features upgrade",
            "Raises features to higher levels, when all brokers know them.",
            (FEATURE, METADATA, DRY_RUN),
            update,
            examples=(
                "moldau features --bootstrap-server localhost:9092 upgrade --feature"
                " transaction.version=2 --dry-run",
            ),
        ),
        Tool(
            "features downgrade",
            "Lowers features to older levels.",
            (FEATURE, METADATA, UNSAFE, DRY_RUN),
            update,
            examples=(
                "moldau features --bootstrap-server localhost:9092 downgrade --feature"
                " transaction.version=1 --dry-run",
            ),
        ),
        Tool(
            "features disable",
            "Switches features off.",
            (FEATURE, UNSAFE, DRY_RUN),
            update,
            examples=(
                "moldau features --bootstrap-server localhost:9092 disable --feature"
                " transaction.version --dry-run",
            ),
        ),
    ),
    examples=("moldau features --bootstrap-server localhost:9092 describe",),
)
