"""Apache Kafka 4.3.1 as the peer: fetched with Maven, run as one KRaft node or tool by tool.

The compat tests run its command-line tools against Moldau, the benchmarks run its broker beside
Moldau's. Jars are fetched once into the user's cache; MOLDAU_KAFKA_HOME names another folder
whose `libs` holds them. A broker is stopped by its own process id and leaves nothing behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

VERSION = "4.3.1"
POM = Path(__file__).parent.parent / "compat" / "clients" / "java" / "pom.xml"
MARKER_JAR = f"kafka_2.13-{VERSION}.jar"
CLUSTER_ID = "bW9sZGF1LWJlbmNobWFyaw"
HEAP = ("-Xms1g", "-Xmx1g")
GARBAGE_COLLECTOR = (
    # What Apache Kafka's own start script passes to the JVM.
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
TOOL_JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
FETCH_SECONDS_MAX = 900
START_SECONDS_MAX = 240
STOP_SECONDS_MAX = 30

LOGGING = """\
<Configuration status="OFF">
  <Appenders>
    <Console name="stderr" target="SYSTEM_ERR">
      <PatternLayout pattern="[%d] %p %m (%c)%n"/>
    </Console>
  </Appenders>
  <Loggers><Root level="{level}"><AppenderRef ref="stderr"/></Root></Loggers>
</Configuration>
"""


def kafka_home() -> Path:
    """The folder whose `libs` holds every jar; fetched on the first call."""
    named = os.environ.get("MOLDAU_KAFKA_HOME")
    home = Path(named) if named else Path.home() / ".cache" / "moldau" / f"kafka-{VERSION}"
    if not (home / "libs" / MARKER_JAR).exists():
        fetch(home)
    return home


def fetch(home: Path, pom: Path = POM) -> None:
    """Copy what `pom` names into `home`/libs; a fetch that breaks off leaves nothing there."""
    maven = shutil.which("mvn")
    if maven is None:
        raise FileNotFoundError("mvn is needed to fetch Apache Kafka and is not on the PATH")
    arriving = home / f"libs.{os.getpid()}"
    arriving.mkdir(parents=True)
    goal = "dependency:copy-dependencies"
    command = [maven, "-q", "-B", "-f", str(pom), goal, f"-DoutputDirectory={arriving}"]
    try:
        subprocess.run(command, check=True, timeout=FETCH_SECONDS_MAX)
        shutil.rmtree(home / "libs", ignore_errors=True)
        arriving.rename(home / "libs")
    finally:
        shutil.rmtree(arriving, ignore_errors=True)


def classpath(*more: Path) -> str:
    return os.pathsep.join([str(kafka_home() / "libs" / "*"), *map(str, more)])


def logging_option(level: str, directory: Path) -> str:
    """The JVM option that makes log4j write `level` and above to stderr."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"log4j2-{level.lower()}.xml"
    path.write_text(LOGGING.format(level=level))
    return f"-Dlog4j2.configurationFile={path}"


def tool_command(main_class: str, scratch: Path, *extra_classpath: Path) -> list[str]:
    """How to start a tool or client program: a small JVM that starts fast and logs warnings."""
    logging = logging_option("WARN", scratch)
    return ["java", *TOOL_JVM, logging, "-cp", classpath(*extra_classpath), main_class]


def run_tool(
    main_class: str, *arguments: str, scratch: Path, stdin: str = "", seconds_max: int = 120
) -> subprocess.CompletedProcess[str]:
    """One run of a command-line tool; the caller judges its exit code and output."""
    return subprocess.run(
        [*tool_command(main_class, scratch), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds_max,
    )


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now; all are held until the last one is found."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in held]
    for listener in held:
        listener.close()
    return ports


class ApacheKafka:
    """One combined broker and controller with default settings on an empty log directory."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.port, self.controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.log_directory = directory / "data"
        self.settings = dict(settings or {})
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def properties(self) -> dict[str, str]:
        """Apache Kafka's defaults, apart from what a lone node on free ports has to say."""
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.log_directory),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self.settings,
        }

    def format(self) -> None:
        """Prepare the log directory, as an operator does once before the first start."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = [f"{key}={value}\n" for key, value in self.properties().items()]
        (self.directory / "server.properties").write_text("".join(lines))
        formatted = run_tool(
            "kafka.tools.StorageTool",
            *("format", "-t", CLUSTER_ID, "-c", str(self.directory / "server.properties")),
            scratch=self.directory,
        )
        if formatted.returncode != 0:
            raise RuntimeError(f"formatting failed: {formatted.stdout}{formatted.stderr}")

    def launch(self) -> None:
        """Start the process and return at once; `wait` says when it listens."""
        logging = logging_option("INFO", self.directory)
        command = ["java", *HEAP, *GARBAGE_COLLECTOR, logging, "-cp", classpath(), "kafka.Kafka"]
        with (self.directory / "server.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, str(self.directory / "server.properties")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while not listens(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"Apache Kafka did not start: {self.last_log_lines()}")
            time.sleep(0.05)

    def start(self) -> Self:
        self.format()
        self.launch()
        self.wait()
        return self

    def stop(self) -> None:
        """Controlled stop; killed if it takes too long."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def last_log_lines(self) -> str:
        return (self.directory / "server.log").read_text(errors="replace")[-3000:]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
