"""Spark's own Kafka connector 4.2.0: fetched with Maven once, into the user's cache.

MOLDAU_SPARK_CONNECTOR names another folder whose `libs` holds the jars.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.apache_kafka import fetch

VERSION = "4.2.0"
POM = Path(__file__).parent.parent / "compat" / "clients" / "spark" / "pom.xml"
MARKER_JAR = f"spark-sql-kafka-0-10_2.13-{VERSION}.jar"


def connector_jars() -> str:
    """What `spark.jars` takes."""
    named = os.environ.get("MOLDAU_SPARK_CONNECTOR")
    cache = Path.home() / ".cache" / "moldau" / f"spark-connector-{VERSION}"
    home = Path(named) if named else cache
    if not (home / "libs" / MARKER_JAR).exists():
        fetch(home, POM)
    return ",".join(str(jar) for jar in sorted((home / "libs").glob("*.jar")))
