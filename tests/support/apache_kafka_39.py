"""Apache Kafka 3.9.1 as the peer for what 4.x dropped: old formatters, old flags, ZooKeeper.

Jars are fetched once with Maven into the user's cache; MOLDAU_KAFKA39_HOME names another folder
whose `libs` holds them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.apache_kafka import CLUSTER_ID, TOOL_JVM, ApacheKafka, fetch

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


def java39_command(
    main_class: str, scratch: Path, level: str = "WARN", more: Sequence[Path] = ()
) -> list[str]:
    """How to start a class of 3.9.1; it logs `level` and above to stderr."""
    scratch.mkdir(parents=True, exist_ok=True)
    logging = scratch / f"log4j-{level.lower()}.properties"
    logging.write_text(LOGGING.format(level=level))
    classpath = os.pathsep.join([str(kafka39_home() / "libs" / "*"), *map(str, more)])
    option = f"-Dlog4j.configuration=file:{logging}"
    return ["java", *TOOL_JVM, option, "-cp", classpath, main_class]


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


class ApacheKafka39(ApacheKafka):
    """One combined broker and controller of 3.9.1; `launch` and `wait` start it again on the same
    log directory."""

    def format(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties().items()))
        formatted = run_tool_39(
            "kafka.tools.StorageTool",
            *("format", "-t", CLUSTER_ID, "-c", str(path)),
            scratch=self.directory,
        )
        if formatted.returncode != 0:
            raise RuntimeError(f"formatting failed: {formatted.stdout}{formatted.stderr}")

    def launch(self) -> None:
        command = java39_command("kafka.Kafka", self.directory, "INFO")
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(self.directory / "server.properties")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
