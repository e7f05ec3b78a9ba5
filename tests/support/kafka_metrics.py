"""What Apache Kafka 4.3.1 tells Prometheus through its Java agent: the oracle for names of metrics.

    python -m tests.support.kafka_metrics FOLDER [--write]

FOLDER holds the agent's rules of others, which are not ours to keep: a `*strimzi*.yaml` and a
`*confluent*.yml`. A broker is started with each, put under `watched_load`, and scraped; printed is
what differs from `tests/compat/kafka-4.3.1-metrics.tsv`, which `--write` writes anew. The agent is
fetched with Maven, once.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import yaml

from tests.support.apache_kafka import FETCH_SECONDS_MAX, ApacheKafka, classpath, free_ports
from tests.support.watched_load import TOPIC, watched_load

AGENT = "jmx_prometheus_javaagent"
AGENT_VERSION = "1.0.1"
TABLE = Path(__file__).parents[1] / "compat" / "kafka-4.3.1-metrics.tsv"
HEAD = "dialect\tname\ttype\tlabels"
RULES = {"strimzi": "*strimzi*metrics*.yaml", "confluent": "*confluent*broker*.yml"}
EMBEDDED = "kafka-metrics-config.yml"
"""What the rules are called in a ConfigMap of Kubernetes."""
SCRAPE_SECONDS_MAX = 240


def agent_jar() -> Path:
    folder = Path.home() / ".cache" / "moldau" / "agent"
    jar = folder / f"{AGENT}-{AGENT_VERSION}.jar"
    if not jar.exists():
        artifact = f"io.prometheus.jmx:{AGENT}:{AGENT_VERSION}"
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
        subprocess.run(
            [*command, f"-DoutputDirectory={folder}"], check=True, timeout=FETCH_SECONDS_MAX
        )
    return jar


def rules_in(path: Path) -> str:
    """The agent's own YAML, also out of a ConfigMap; it is to begin at once."""
    for document in yaml.safe_load_all(path.read_text()):
        told = document.get("data", {}).get(EMBEDDED)
        rules = yaml.safe_load(told) if told else document
        if "rules" in rules:
            return str(yaml.safe_dump({**rules, "startDelaySeconds": 0}))
    raise ValueError(f"{path} has no rules")


class WatchedKafka(ApacheKafka):
    """With the agent."""

    def __init__(self, directory: Path, rules: Path) -> None:
        super().__init__(directory, {"num.partitions": "2"})
        (self.metrics_port,) = free_ports(1)
        self._rules = rules

    def launch(self) -> None:
        agent = f"-javaagent:{agent_jar()}=127.0.0.1:{self.metrics_port}:{self._rules}"
        command = ["java", "-Xmx1g", agent, "-cp", classpath(), "kafka.Kafka"]
        with (self.directory / "server.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, str(self.directory / "server.properties")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def scraped(self) -> str:
        address = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(address, timeout=SCRAPE_SECONDS_MAX) as answer:
            text: str = answer.read().decode()
            return text


def rows(dialect: str, text: str) -> list[str]:
    """Of the table, sorted by name; the sets of labels of a name beside each other."""
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    labels: dict[str, set[str]] = {}
    for name, inside in re.findall(
        r"^((?:kafka|process)_\w+)(?:\{(.*)\})? \S+$", text, re.MULTILINE
    ):
        found = ",".join(sorted(re.findall(r'(\w+)="', inside)))
        labels.setdefault(name, set()).add(found or "-")
    return [
        "\t".join((dialect, name, types.get(name, ""), " ".join(sorted(labels[name]))))
        for name in sorted(labels)
    ]


def told(dialect: str, rules: Path) -> list[str]:
    import moldau

    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "rules.yml").write_text(rules_in(rules))
        kafka = WatchedKafka(Path(directory), Path(directory) / "rules.yml").start()
        try:
            watched_load(kafka.bootstrap)
            with moldau.Producer({"bootstrap.servers": kafka.bootstrap}) as producer:
                producer.send(TOPIC, b"its connection is open").result()
                time.sleep(1)
                return rows(dialect, kafka.scraped())
        finally:
            kafka.stop()


def main(folder: str, *flags: str) -> None:
    found = [HEAD]
    for dialect, pattern in RULES.items():
        (rules,) = Path(folder).glob(pattern)
        found += told(dialect, rules)
    stored = TABLE.read_text().splitlines()
    for sign, lines, others in (("-", stored, set(found)), ("+", found, set(stored))):
        for line in lines:
            if line not in others:
                print(sign, line)
    print(f"{len(found) - 1} names, {len(set(found) & set(stored)) - 1} as stored")
    if "--write" in flags:
        TABLE.write_text("\n".join(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
