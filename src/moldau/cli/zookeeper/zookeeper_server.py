"""How to run the real Apache ZooKeeper: its jars come inside the pyspark wheel, or from a folder
that ZOOKEEPER_JARS names; Java does not.

Also tells which ZooKeeper servers of ours run on this machine: by their command line.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JAVA_MIN = 17
PROCESSES = Path("/proc")
SERVER_JAR = "zookeeper-3"
NEEDED = (
    "zookeeper-",
    "netty-",
    "slf4j-api-",
    "log4j-api-",
    "log4j-core-",
    "log4j-slf4j2-impl-",
    "metrics-core-",
    "snappy-java-",
    "commons-cli-",
    "commons-io-",
    "jline-",
    "audience-annotations-",
)
"""Of the few hundred jars that come with Spark: each one on the class path costs time to open."""


class ZooKeeperFault(Exception):
    """ZooKeeper cannot be started; says why and what to do."""


def jars() -> list[Path]:
    """Raises ZooKeeperFault."""
    named = os.environ.get("ZOOKEEPER_JARS")
    if named:
        # Whoever downloaded them chose them: all belong together.
        found = sorted(Path(named).glob("*.jar"))
        if not any(jar.name.startswith(SERVER_JAR) for jar in found):
            raise ZooKeeperFault(
                f"ZOOKEEPER_JARS names {named}, and there is no {SERVER_JAR}*.jar: name the folder "
                "with ZooKeeper's jars, such as lib/ of its distribution."
            )
        return found
    spark = importlib.util.find_spec("pyspark")
    places = list(spark.submodule_search_locations or ()) if spark is not None else []
    found = [
        jar
        for place in places
        for jar in sorted(Path(place, "jars").glob("*.jar"))
        if jar.name.startswith(NEEDED)
    ]
    if not any(jar.name.startswith(SERVER_JAR) for jar in found):
        raise ZooKeeperFault(
            "ZooKeeper's jars are not here: they come with pip install 'moldau[spark]', or name a "
            "folder that has them with ZOOKEEPER_JARS."
        )
    return found


def java() -> str:
    """The program, new enough. Raises ZooKeeperFault."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = f"install Java {JAVA_MIN} or newer, or name it with JAVA_HOME"
    if program is None:
        raise ZooKeeperFault(f"ZooKeeper needs Java and there is none: {advice}.")
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise ZooKeeperFault(f"{program} cannot be run ({fault}): {advice}.") from None
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if version is None or int(version[1]) < JAVA_MIN:
        which = "an unknown version" if version is None else f"Java {version[1]}"
        raise ZooKeeperFault(f"{program} is {which}: {advice}.")
    return program


def java_options() -> list[str]:
    """Flags that whoever calls wants, as for Kafka's scripts: a JAAS file, for example."""
    try:
        return shlex.split(os.environ.get("KAFKA_OPTS", ""))
    except ValueError as fault:
        raise ZooKeeperFault(f"KAFKA_OPTS cannot be read: {fault}.") from None


def java_command(
    config: Path, class_path: Sequence[Path], *, heap_mb: int = 512, program: str = "java"
) -> list[str]:
    options = os.environ.get("KAFKA_HEAP_OPTS", f"-Xmx{heap_mb}M -Xms{min(heap_mb, 64)}M").split()
    level = os.environ.get("MOLDAU_LOG_LEVEL", "INFO")
    return [
        program,
        *options,
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.level={level}",
        "-Dzookeeper.jmx.log4j.disable=true",
        *java_options(),
        "-cp",
        ":".join(map(str, class_path)),
        MAIN_CLASS,
        str(config),
    ]


class RunningZooKeeper(NamedTuple):
    pid: int
    config: Path


def running_zookeepers() -> list[RunningZooKeeper]:
    """Those of this user, by their command line; none where that cannot be read."""
    found = []
    for entry in PROCESSES.iterdir() if PROCESSES.is_dir() else ():
        if not entry.name.isdigit():
            continue
        try:
            if entry.stat().st_uid != os.getuid():
                continue
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            folder = Path(os.readlink(entry / "cwd"))
        except OSError:
            continue
        if MAIN_CLASS in words[:-1]:
            config = words[words.index(MAIN_CLASS) + 1]
            found.append(RunningZooKeeper(int(entry.name), folder / config))
    return sorted(found)
