"""The one place that builds a SparkSession, and that teaches a session the format `moldau`.

`session` is for those who have none: `local[*]`, or any master by argument or MOLDAU_SPARK_MASTER.
`register` is for those who have one. Executors run the Python of the driver, so on one machine a
cluster finds Moldau in the same environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from moldau.pipelines.hidden_settings import SECRET_NAMES, hide_what_is_carried_to_the_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
JAVA_ANSWER_SECONDS_MAX = 20
SHUFFLE_PARTITIONS = 4
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
REDACTION = "spark.sql.redaction.options.regex"
SECRET_OPTIONS = f"(?i:{SECRET_NAMES})"
"""Options of the format that Spark must not show in plans, in its event log and on its pages. What
it hides of itself leaves out the key of a certificate."""
MASTER_VARIABLE = "MOLDAU_SPARK_MASTER"

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    PUSHDOWN: "true",
    # State with timers and lists lives in RocksDB only; a change log makes its commits small.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL_SETTINGS = {
    # Nothing outside this machine has to reach the driver.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
}


class SessionError(Exception):
    """No session can be had; the message says what is missing."""


def session(app_name: str, master: str | None = None, **conf: Any) -> SparkSession:
    """A SparkSession that knows the format `moldau`, with settings that suit pipelines.

        spark = session("wordcount")
        spark = session("wordcount", "spark://host:7077", **{"spark.executor.memory": "2g"})

    `conf` wins over the settings here; `spark_ui_enabled=True` is short for its key with dots."""
    sql = load_pyspark()
    check_java()
    chosen = master or os.environ.get(MASTER_VARIABLE) or "local[*]"
    # Workers must be this Python, or they would not find Moldau.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Spark would look up the host's name, and warn about what it finds.
    if chosen.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = dict(SETTINGS)
    if chosen.startswith("local"):
        settings |= LOCAL_SETTINGS
    settings |= {_key(name): _text(value) for name, value in conf.items()}
    builder = sql.SparkSession.builder.appName(app_name).master(chosen)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark: SparkSession = builder.getOrCreate()
    except (OSError, RuntimeError) as fault:
        raise SessionError(f"Spark on {chosen} could not be started: {fault}") from None
    if "spark.log.level" not in settings:
        spark.sparkContext.setLogLevel("ERROR")
    return register(spark)


def register(spark: SparkSession) -> SparkSession:
    """Teach a session the format `moldau`; a session of the user's own needs this once."""
    from moldau.pipelines.source.data_source import MoldauSource, PlainMoldauSource

    if spark.conf.get(PUSHDOWN, "false") != "true" and not _is_set(spark, PUSHDOWN):
        spark.conf.set(PUSHDOWN, "true")
    # Spark refuses a source that can filter where the user has switched filtering off.
    pushes = spark.conf.get(PUSHDOWN, "false") == "true"
    spark.dataSource.register(MoldauSource if pushes else PlainMoldauSource)
    hide_what_is_carried_to_the_jvm()
    hidden = spark.conf.get(REDACTION, "") or ""
    if SECRET_OPTIONS not in hidden:
        spark.conf.set(REDACTION, f"(?:{hidden})|{SECRET_OPTIONS}" if hidden else SECRET_OPTIONS)
    return spark


def load_pyspark() -> Any:
    try:
        import pyspark.sql
    except ImportError:
        raise SessionError(
            "Pipelines need pyspark: install it with pip install 'moldau[spark]'"
        ) from None
    return pyspark.sql


def check_java() -> None:
    """SessionError without a Java that Spark can run on."""
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else shutil.which("java")
    hint = f"install Java {JAVA_MIN} or newer, or set JAVA_HOME to where one is"
    if command is None or not os.access(command, os.X_OK):
        place = f"at JAVA_HOME={home}" if home else "on the PATH"
        raise SessionError(f"There is no Java {place}, and Spark runs on Java: {hint}")
    try:
        answer = subprocess.run(
            [command, "-version"],
            capture_output=True,
            text=True,
            timeout=JAVA_ANSWER_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise SessionError(f"Java does not start ({fault}): {hint}") from None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if found is None or int(found[1]) < JAVA_MIN:
        version = found[1] if found else "unknown"
        raise SessionError(f"{command} is Java {version}, too old for Spark: {hint}")


def _is_set(spark: SparkSession, key: str) -> bool:
    """Whether the user has given the setting, rather than Spark its default."""
    return spark.sparkContext.getConf().contains(key)


def _key(name: str) -> str:
    return name.replace("_", ".") if name.startswith("spark_") else name


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
