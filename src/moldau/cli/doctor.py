"""`moldau doctor`: looks at a cluster, names what is wrong, why, and the command that mends it.

It only asks; nothing in the cluster changes. `moldau.diagnosis` gathers and judges, apart from one
another, so each finding rests on data that --json shows too.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from moldau.cli.command_clients import address_of, bootstrap_of, client_faults, properties_file
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import BOLD, DIM, RED, YELLOW, Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool
from moldau.profiles import Subject, never_lose

if TYPE_CHECKING:
    from moldau.diagnosis.evidence import Evidence, Finding

PROFILES = {never_lose.name: never_lose}
CLIENT_FLAGS = {
    "producer-settings": Subject.PRODUCER,
    "consumer-settings": Subject.CONSUMER,
}
PAGE = "docs/troubleshooting.md"
HEALTHY, ILL, UNREACHED = 0, 1, 2
MINUTE_MS = 60_000
WIDTH = 96


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    from moldau.diagnosis.diagnosing import Promise, diagnose
    from moldau.diagnosis.evidence import Limits, Severity
    from moldau.diagnosis.gathering import gather

    promise = None
    files = clients(given)
    if given.has("profile"):
        promise = Promise(PROFILES[given.text("profile").lower()], files)
    elif files:
        raise UsageFault(f"{', '.join(files)}: settings files are held to a --profile.")
    try:
        bootstrap = bootstrap_of(given, out)
        addresses = [address_of(each) for each in bootstrap.split(",") if each.strip()]
        settings = (
            properties_file(given.text("command-config")) if given.has("command-config") else {}
        )
        with client_faults():
            seen = gather(
                bootstrap,
                addresses,
                settings,
                timeout_ms=given.number("timeout"),
                rebalance_ms=given.number("rebalance-seconds") * 1000,
                profile=None if promise is None else promise.profile,
            )
    except CommandFault as fault:
        fault.code = UNREACHED
        raise
    limits = Limits(
        lag=given.number("max-lag"),
        skew_ms=given.number("max-clock-skew") * 1000,
        transaction_ms=given.number("max-transaction-timeout") * MINUTE_MS,
    )
    findings = diagnose(seen, limits, promise)
    show_json(out, seen, findings) if given.has("json") else show(out, seen, findings)
    if not seen.is_reached:
        return UNREACHED
    return ILL if any(each.severity is not Severity.NOTE for each in findings) else HEALTHY


def clients(given: Given) -> dict[str, tuple[Subject, dict[str, str]]]:
    """The settings files that are given, by their names."""
    return {
        given.text(flag): (subject, properties_file(given.text(flag)))
        for flag, subject in CLIENT_FLAGS.items()
        if given.has(flag)
    }


def show(out: Output, seen: Evidence, findings: Sequence[Finding]) -> None:
    from moldau.diagnosis.evidence import Severity, plural

    colours = {Severity.ERROR: RED, Severity.WARNING: YELLOW, Severity.NOTE: DIM}
    for finding in findings:
        word = finding.severity.name
        out.line(f"{out.paint(word, colours[finding.severity])}: {out.paint(finding.what, BOLD)}")
        for title, text in (("cause", finding.cause), ("fix", finding.fix)):
            out.line(wrapped(title, text))
        if finding.command:
            out.line(f"  try:   {finding.command}")
        out.line()
    for sentence in seen.unchecked:
        out.line(textwrap.fill(f"Not checked: {sentence}.", WIDTH))
    counts = dict.fromkeys(Severity, 0)
    for finding in findings:
        counts[finding.severity] += 1
    if seen.is_reached:
        told = [plural(count, severity.value) for severity, count in counts.items() if count]
        out.line(f"{checked(seen)}: {', '.join(told) or 'nothing found, all is well'}.")
    else:
        out.line(f"The cluster at {seen.bootstrap} cannot be reached.")
    out.line(f"What error texts of clients and brokers mean, and what mends them: {PAGE}")


def wrapped(title: str, text: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=f"  {title + ':':<7}",
        subsequent_indent=" " * 9,
        break_long_words=False,
        break_on_hyphens=False,
    )


def checked(seen: Evidence) -> str:
    from moldau.diagnosis.evidence import plural

    counts = sizes(seen)
    return "Checked " + ", ".join(plural(count, noun) for noun, count in counts.items())


def sizes(seen: Evidence) -> dict[str, int]:
    return {
        "broker": 0 if seen.cluster is None else len(seen.cluster.brokers),
        "topic": len(seen.topics),
        "partition": sum(len(topic.partitions) for topic in seen.topics),
        "group": len(seen.groups),
    }


def show_json(out: Output, seen: Evidence, findings: Iterable[Finding]) -> None:
    clock = seen.clock
    out.json(
        {
            "bootstrap": seen.bootstrap,
            "clusterId": None if seen.cluster is None else seen.cluster.cluster_id,
            "reached": seen.is_reached,
            "checked": {f"{noun}s": count for noun, count in sizes(seen).items()},
            "clockAheadMs": None if clock is None else clock.ahead_ms,
            "unchecked": seen.unchecked,
            "findings": [{**each._asdict(), "severity": each.severity.value} for each in findings],
        }
    )


TOOL = Tool(
    name="doctor",
    does="Looks at a cluster and says what is wrong, why, and which command mends it. It asks"
    " only; nothing is changed.",
    flags=(
        BOOTSTRAP,
        COMMAND_CONFIG,
        Flag(
            "--timeout",
            "How long one question to the cluster may take, in milliseconds.",
            takes="MS",
            kind=integer,
            default=3_000,
        ),
        Flag(
            "--max-lag",
            "Records that a group with members may be behind.",
            takes="RECORDS",
            kind=integer,
            default=1_000,
        ),
        Flag(
            "--max-clock-skew",
            "Seconds that clocks may differ.",
            takes="SECONDS",
            kind=integer,
            default=60,
        ),
        Flag(
            "--max-transaction-timeout",
            "Minutes after which an open transaction is suspect.",
            takes="MINUTES",
            kind=integer,
            default=15,
        ),
        Flag(
            "--rebalance-seconds",
            "A group that is in a rebalance is looked at again after so long.",
            takes="SECONDS",
            kind=integer,
            default=3,
        ),
        Flag(
            "--profile",
            "Also say what breaks this promise.",
            takes="NAME",
            one_of=tuple(PROFILES),
        ),
        Flag(
            "--producer-settings",
            "A producer's settings file, held to the profile.",
            takes="FILE",
        ),
        Flag(
            "--consumer-settings",
            "A consumer's settings file, held to the profile.",
            takes="FILE",
        ),
        JSON,
    ),
    main=main,
    notes="Exit code: 0 healthy (notes may be printed), 1 something was found, 2 the cluster"
    " cannot be reached.",
    examples=(
        "moldau doctor --bootstrap-server localhost:9092",
        "moldau doctor --bootstrap-server localhost:9092 --json",
        "moldau doctor --bootstrap-server localhost:9092 --profile never-lose"
        " --producer-settings producer.properties",
    ),
)
