"""Apache Kafka 3.9.1 as the peer for what 4.x dropped: old formatters, old flags, ZooKeeper.

Jars are fetched once with Maven into the user's cache; MOLDAU_KAFKA39_HOME names another folder
whose `libs` holds them.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.apache_kafka import TOOL_JVM, fetch

VERSION = "3.9.1"
POM = Path(__file__).parent.parent / "compat" / "clients" / "java39" / "pom.xml"
MARKER_JAR = f"kafka_2.13-{VERSION}.jar"

LOGGING = """\
log4j.rootLogger={level}, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.Target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def kafka39_home() -> Path:
    """The folder whose `libs` holds every jar; fetched on the first call."""
    named = os.environ.get("MOLDAU_KAFKA39_HOME")
    home = Path(named) if named else Path.home() / ".cache" / "moldau" / f"kafka-{VERSION}"
    if not (home / "libs" / MARKER_JAR).exists():
        fetch(home, POM)
    return home


def java39_command(main_class: str, scratch: Path, level: str = "WARN") -> list[str]:
    """How to start a class of 3.9.1; it logs `level` and above to stderr."""
    scratch.mkdir(parents=True, exist_ok=True)
    logging = scratch / f"log4j-{level.lower()}.properties"
    logging.write_text(LOGGING.format(level=level))
    jars = str(kafka39_home() / "libs" / "*")
    return ["java", *TOOL_JVM, f"-Dlog4j.configuration=file:{logging}", "-cp", jars, main_class]


def run_tool_39(
    main_class: str, *arguments: str, scratch: Path, stdin: str = "", seconds_max: int = 120
) -> subprocess.CompletedProcess[str]:
    """One run of a command-line tool; the caller judges its exit code and output."""
    return subprocess.run(
        [*java39_command(main_class, scratch), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds_max,
    )
