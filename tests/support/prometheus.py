"""Debian's Prometheus, for tests: scrapes one broker every second and is asked over its HTTP API.

As a program it evaluates every expression of the dashboards (Grafana's JSON) in a folder against a
broker under load, and names those that give nothing:
`python -m tests.support.prometheus FOLDER [strimzi|confluent]`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from moldau.testing.broker_process import BrokerProcess, free_port
from tests.support.eventually import eventually

SCRAPES = 4
"""So many, and a rate has something to go by."""
CONFIG = """\
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: kafka-broker
    static_configs: [{{targets: ["{target}"], labels: {labels}}}]
  - job_name: partitions
    metrics_path: /metrics/partitions
    relabel_configs: [{{target_label: job, replacement: kafka-broker}}]
    static_configs: [{{targets: ["{target}"], labels: {labels}}}]
"""
LABELS = {
    "namespace": "kafka",
    "strimzi_io_cluster": "moldau",
    "strimzi_io_name": "moldau-kafka",
    "kubernetes_pod_name": "moldau-kafka-0",
    "container": "kafka",
    "env": "production",
}
VARIABLES = {
    "kubernetes_namespace": "kafka",
    "strimzi_cluster_name": "moldau",
    "env": "production",
    "__rate_interval": "1m",
    "__interval": "1m",
    "interval": "1m",
    "__range": "1m",
}
"""Of the dashboards; all others stand for anything."""


class Prometheus:
    def __init__(self, directory: Path, target: str) -> None:
        """`target` is host:port of the broker's metrics."""
        program = shutil.which("prometheus")
        assert program is not None, "prometheus is needed (Debian: apt-get install prometheus)"
        self._program = program
        self._directory = directory
        self._target = target
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        config = self._directory / "prometheus.yml"
        config.write_text(CONFIG.format(target=self._target, labels=json.dumps(LABELS)))
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    self._program,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={self._directory / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                stdout=log,
                stderr=log,
            )
        eventually(self._is_ready)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(30)

    def _is_ready(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self._log()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def _log(self) -> str:
        return (self._directory / "log").read_text()[-2000:]

    def ask(self, expression: str) -> list[Any]:
        """The samples that it gives now."""
        query = urllib.parse.urlencode({"query": expression})
        url = f"http://127.0.0.1:{self._port}/api/v1/query?{query}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                result: list[Any] = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as refusal:
            raise ValueError(f"{expression}: {refusal.read().decode()}") from None
        return result

    def wait_for_scrapes(self) -> None:
        count = f'min(count_over_time(up{{job="kafka-broker"}}[1m])) >= {SCRAPES}'
        healthy = 'count(up{job="kafka-broker"} == 1)'
        eventually(lambda: bool(self.ask(count)) and bool(self.ask(healthy)))


def expressions(folder: Path) -> Iterator[tuple[str, str]]:
    """The name of each dashboard's file, and what its panels and variables ask."""
    for path in sorted(folder.glob("*.json")):
        for expression in dict.fromkeys(_found(json.loads(path.read_text()))):
            yield path.name, _filled(expression)


def _found(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key in ("expr", "query", "definition") and isinstance(value, str) and value.strip():
                yield value
            else:
                yield from _found(value)
    elif isinstance(part, list):
        for each in part:
            yield from _found(each)


def _filled(expression: str) -> str:
    """Its variables replaced; what a variable asks becomes an expression too."""
    text = expression.strip()
    asked = re.fullmatch(r"label_values\((?:(.*),)?\s*(\w+)\)", text, re.DOTALL)
    if asked is not None:
        label, of = asked[2], asked[1] or f'{{{asked[2]}!=""}}'
        text = f"count by ({label}) ({of})"
    elif text.startswith("query_result("):
        text = text.removeprefix("query_result(").removesuffix(")")

    def value(match: re.Match[str]) -> str:
        return VARIABLES.get(match[1] or match[2] or match[3], ".*")

    text = re.sub(r"\$\{(\w+)(?::\w+)?\}|\$(\w+)|\[\[(\w+)\]\]", value, text)
    return re.sub(r"""(?<![!~=])=(["'])\.\*\1""", '=~".*"', text)


def main(folder: str, dialect: str) -> None:
    from tests.support.watched_load import Watchers

    port = free_port()
    overrides = {
        "metrics.http.listener": f"127.0.0.1:{port}",
        "metrics.http.dialect": dialect,
        "num.partitions": "2",
    }
    with (
        tempfile.TemporaryDirectory() as directory,
        BrokerProcess(Path(directory) / "broker", overrides=overrides) as broker,
        Watchers(broker.bootstrap),
        Prometheus(Path(directory) / "prometheus", f"127.0.0.1:{port}") as prometheus,
    ):
        prometheus.wait_for_scrapes()
        total = 0
        for name, expression in expressions(Path(folder)):
            total += 1
            try:
                if not prometheus.ask(expression):
                    print(f"nothing: {name}: {expression}")
            except ValueError as refusal:
                print(f"refused: {name}: {refusal}")
        print(f"{total} expressions")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "strimzi")
