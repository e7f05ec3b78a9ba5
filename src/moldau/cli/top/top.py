"""`moldau top`: a cluster on one screen, as it is now, driven by keys.

One thread: between two looks at the cluster the loop waits for keys, so that each is answered at
once. In a pipe everything is printed once, as plain text.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.cli.command_clients import client_faults, open_admin
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, Tool, run_tool
from moldau.cli.top.top_sample import look, sample
from moldau.cli.top.top_screen import VIEWS, Look, plain, screen

if TYPE_CHECKING:
    from moldau.cli.top.top_sample import Look as Found
    from moldau.cli.top.top_sample import Sample
    from moldau.client.admin.blocking_admin import Admin

ENTER_SCREEN, LEAVE_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, CLEAR_LINE = "\x1b[H", "\x1b[K"
REDRAW_S = 0.25
"""A terminal that has changed its size is drawn anew within this."""
VIEW_KEYS = {view[0]: view for view in VIEWS}
DOWN, UP = ("j", "\x1b[B"), ("k", "\x1b[A")


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    interval_s = seconds_of(given.text("interval"))
    from moldau.cli.servers.jmx import checked_url

    metrics = [checked_url(text) for text in given.texts("metrics")]
    with open_admin(given, out) as admin:
        if out.is_json or not (out.is_terminal and sys.stdin.isatty()):
            once(admin, metrics, interval_s, out)
        else:
            Screen(admin, metrics, interval_s, out).run()


def seconds_of(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise UsageFault(f"--interval cannot be {text}: give 0.1 to 3600 seconds")
    return seconds


def once(admin: Admin, metrics: Sequence[str], interval_s: float, out: Output) -> None:
    before = look(admin, metrics)
    time.sleep(interval_s)
    found = sample(before, look(admin, metrics))
    if out.is_json:
        out.json(as_json(found))
    for line in plain(found):
        out.line(line)


def as_json(found: Sample) -> dict[str, object]:
    from moldau.cli.answers import row

    tables = ("brokers", "topics", "groups", "requests")
    rows = {name: [row(each._asdict()) for each in getattr(found, name)] for name in tables}
    return {"clusterId": found.cluster_id, **rows}


class State(NamedTuple):
    chosen: Look
    is_over: bool = False


def pressed(key: str, chosen: Look) -> State:
    """What a key makes of the screen."""
    if key in ("q", "Q", "\x03"):
        return State(chosen, is_over=True)
    if key in VIEW_KEYS:
        return State(chosen._replace(view=VIEW_KEYS[key], first=0))
    if key in DOWN:
        return State(chosen._replace(first=chosen.first + 1))
    if key in UP:
        return State(chosen._replace(first=max(0, chosen.first - 1)))
    if key == "p":
        return State(chosen._replace(is_paused=not chosen.is_paused))
    return State(chosen)


class Screen:
    def __init__(
        self, admin: Admin, metrics: Sequence[str], interval_s: float, out: Output
    ) -> None:
        self.admin = admin
        self.metrics = metrics
        self.interval_s = interval_s
        self.out = out
        self.state = State(Look())
        self.drawn: list[str] = []

    def run(self) -> None:
        before = now = look(self.admin, self.metrics)
        with raw_terminal(self.out):
            due = time.monotonic() + min(1.0, self.interval_s)
            while not self.state.is_over:
                self.draw(before, now)
                self.wait_for_keys(due)
                if time.monotonic() >= due and not self.state.is_over:
                    if not self.state.chosen.is_paused:
                        before, now = now, self.look_again(now)
                    due = time.monotonic() + self.interval_s

    def look_again(self, last: Found) -> Found:
        """A cluster that does not answer for once is shown as it was."""
        try:
            with client_faults():
                return look(self.admin, self.metrics)
        except CommandFault:
            return last

    def wait_for_keys(self, due: float) -> None:
        """Until one has come, the screen has another size perhaps, or it is time to look again."""
        wait_s = max(0.0, min(due - time.monotonic(), REDRAW_S))
        if select.select([sys.stdin], [], [], wait_s)[0]:
            typed = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
            if not typed:
                self.state = self.state._replace(is_over=True)
            for key in keys_of(typed):
                self.state = pressed(key, self.state.chosen)
                if self.state.is_over:
                    return

    def draw(self, before: Found, now: Found) -> None:
        width, height = shutil.get_terminal_size()
        lines = screen(
            sample(before, now),
            self.state.chosen,
            width,
            height,
            has_colours=self.out.has_colours,
        )
        if lines != self.drawn:
            self.out.write(HOME + "\r\n".join(line + CLEAR_LINE for line in lines))
            self.out.flush()
            self.drawn = lines


def keys_of(typed: str) -> Iterator[str]:
    while typed:
        length = 3 if typed.startswith("\x1b[") else 1
        yield typed[:length]
        typed = typed[length:]


@contextlib.contextmanager
def raw_terminal(out: Output) -> Iterator[None]:
    """Keys come one by one and are not echoed; whatever happens, the terminal is as it was."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        out.write(ENTER_SCREEN)
        yield
    finally:
        out.write(LEAVE_SCREEN)
        out.flush()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


TOOL = Tool(
    name="top",
    does="Shows a cluster on one screen, again and again: its brokers, the topics by records a"
    " second, the groups by lag, and the slowest requests. In a pipe it prints all of it once.",
    flags=(
        Flag(
            "--interval -i",
            "How many seconds lie between two looks; rates are of that time.",
            takes="SECONDS",
            default="2",
        ),
        Flag(
            "--metrics",
            "Where a broker tells its metrics (metrics.http.listener): its requests are shown too.",
            takes="URL",
            repeats=True,
        ),
        BOOTSTRAP._replace(names="--bootstrap-server -b"),
        COMMAND_CONFIG,
    ),
    main=main,
    notes="Keys: a all, b brokers, t topics, g groups, r requests, j and k (or the arrows) scroll,"
    " p pauses, q ends. Red: a topic with replicas out of sync, a group that has lag and stands"
    " still. NO_COLOR switches colours off.",
    examples=(
        "moldau top --bootstrap-server localhost:9092",
        "moldau top -b localhost:9092 --metrics http://127.0.0.1:9404",
        "moldau top -b localhost:9092 --json",
    ),
)
