"""`python -m benchmarks`: both brokers in turn, several rounds, one table.

Needs Linux, Java and Maven (for Apache Kafka, fetched once). Exits with 0 whether or not targets
are met: a benchmark tells, it does not judge. A round that fails ends the run with its error.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from benchmarks import clients, cluster, compaction, guards, partitions, tables, tls
from benchmarks.brokers import PEERS, machine, versions
from benchmarks.measures import FULL, GROUPS, ONLY_WHEN_ASKED, QUICK, Scale, Values, take
from benchmarks.report import page, report

DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--rounds", type=int, help="alternations (default 5, with --quick 1)")
    parser.add_argument(
        "--only",
        action="append",
        choices=GROUPS,
        help="this group of measures; may be repeated (some only if named)",
    )
    parser.add_argument(
        "--broker",
        action="append",
        choices=list(PEERS),
        help="this broker alone, no ratios",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every value there")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--directory", type=Path, help="where log directories are made")
    return parser.parse_args()


def one_round(name: str, scale: Scale, wanted: set[str], where: Path | None) -> Values:
    directory = Path(tempfile.mkdtemp(prefix="moldau-bench-", dir=where))
    values: Values = {}
    try:
        if wanted - ONLY_WHEN_ASKED:
            values = one_broker(name, scale, wanted, directory / "broker")
        if "cluster" in wanted:
            values |= cluster.take(name, scale, directory / "cluster")
        if "compaction" in wanted:
            keys, size = scale.compaction_keys, scale.compaction_bytes
            values |= compaction.take(name, directory / "compaction", keys, size)
        if "partitions" in wanted:
            values |= partitions.take(name, directory / "partitions", scale.partitions)
        if "tls" in wanted:
            values |= tls.take(name, scale, directory / "tls")
        if "guards" in wanted:
            values |= guards.take(name, scale, directory / "guards")
        return values
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def one_broker(name: str, scale: Scale, wanted: set[str], directory: Path) -> Values:
    peer = PEERS[name](directory)
    try:
        return take(peer, scale, wanted)
    finally:
        peer.stop()


def stop_cleanly(number: int, _frame: object) -> NoReturn:
    """What was started is ended on the way out."""
    sys.exit(128 + number)


def main() -> None:
    asked = arguments()
    scale = QUICK if asked.quick else FULL
    signal.signal(signal.SIGTERM, stop_cleanly)
    wanted = set(asked.only or GROUPS) - (set() if asked.only else ONLY_WHEN_ASKED)
    if rounds_asked := asked.rounds or (wanted == {"cluster"} and scale.cluster_rounds):
        scale = replace(scale, rounds=rounds_asked)
    if wanted == {"tables"}:
        # It compares ways to ask, not brokers.
        print(tables.run(scale.rounds, tables.QUICK_RECORDS if asked.quick else tables.RECORDS))
        return
    if "tables" in wanted:
        sys.exit("tables compares ways to ask and not brokers: run it alone")
    names = asked.broker or list(PEERS)
    rounds: list[dict[str, Values]] = []
    for number in range(scale.rounds):
        # Whoever went first goes second in the next round.
        order = names if number % 2 == 0 else names[::-1]
        values: dict[str, Values] = {}
        for name in order:
            began = time.monotonic()
            values[name] = one_round(name, scale, wanted, asked.directory)
            took = time.monotonic() - began
            print(f"round {number + 1}/{scale.rounds} {name}: {took:.0f} s", file=sys.stderr)
        rounds.append(values)
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine(), "rounds": rounds}, indent=1) + "\n")
    if len(names) < len(PEERS):
        print(clients.report(rounds) or json.dumps(rounds, indent=1))
        return
    text = report(rounds, machine(), versions(wanted))
    if wanted & {"clients"}:
        text += "\n" + clients.report(rounds)
    print(text)
    if asked.write_docs:
        DOCUMENT.write_text(page(text))


if __name__ == "__main__":
    main()
