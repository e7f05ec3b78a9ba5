"""`make sim`: many seeds, or one again with everything that the brokers logged.

`python -m tests.sim --seeds 200` runs seeds from 0 (or `--first`) on, `--seed 17` one alone. The
first line of a failure names the seed; its trace follows.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import inf

from tests.sim.scenario import Outcome, run

TRACE_LINES = 400
FAILURES_MAX = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("--seed", type=int, help="replay this one, with the brokers' logs")
    parser.add_argument("--seeds", type=int, default=100, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--seconds", type=float, default=inf, help="begin no seed after so long (no limit)"
    )
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of names is part of what a seed decides.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]], environment)
    if given.seed is not None:
        return _report([run(given.seed, with_logs=True)], whole=True)
    return _run_many(range(given.first, given.first + given.seeds), given.processes, given.seconds)


def _run_many(seeds: range, processes: int, seconds: float) -> int:
    failures: list[Outcome] = []
    acknowledged = done = 0
    until = time.monotonic() + seconds
    with ProcessPoolExecutor(processes) as pool:
        for outcome in pool.map(partial(_run_until, until), seeds):
            if outcome is None:
                continue
            done += 1
            acknowledged += outcome.acknowledged
            if outcome.faults:
                failures.append(outcome)
                print(f"seed {outcome.seed} fails: {outcome.faults[0]}", flush=True)
                if len(failures) == FAILURES_MAX:
                    pool.shutdown(wait=False, cancel_futures=True)
                    break
    print(f"{done} seeds, {len(failures)} failures, {acknowledged} acknowledged batches")
    return _report(failures[:1]) if failures else 0


def _run_until(until: float, seed: int) -> Outcome | None:
    """None if the time is over. The story of a seed that passes is of no interest."""
    if time.monotonic() > until:
        return None
    outcome = run(seed)
    return outcome if outcome.faults else outcome._replace(trace=[])


def _report(outcomes: list[Outcome], *, whole: bool = False) -> int:
    for outcome in outcomes:
        print("\n".join(outcome.trace if whole else outcome.trace[-TRACE_LINES:]))
        for fault in outcome.faults:
            print(f"seed {outcome.seed} fails: {fault}")
        if outcome.faults and not whole:
            print(f"replay with the brokers' logs: make sim SEED={outcome.seed}")
        elif not outcome.faults:
            print(f"seed {outcome.seed} passes, {outcome.acknowledged} acknowledged batches")
    return int(any(outcome.faults for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
