"""What a command is told it does, refuses, or says that it changes nothing."""

from __future__ import annotations

import io

import pytest

from moldau.cli.flags import Flag, Given, parse
from moldau.cli.output import Output
from moldau.cli.servers import server_start
from moldau.cli.tool import Tool, run_tool
from moldau.cli.topics.reassign_partitions import ACTIONS, ANYWHERE, PERMITTED
from moldau.cli.topics.reassign_partitions import TOOL as REASSIGN
from moldau.cli.topics.reassign_partitions import main as reassign
from tests.support.flag_readers import tools, unread

IDLE = {
    "topics": {"--partition-size-limit-per-response", "--force", "--disable-rack-aware"},
    "configs": {"--force"},
    "console-consumer": {"--new-consumer", "--enable-systest-events"},
    "consumer-groups": {"--new-consumer"},
    "jmx": {"--jmx-auth-prop", "--jmx-ssl-enable"},
    "dump-log": {"--max-message-size"},
    "verifiable-consumer": {"--group-remote-assignor"},
    "consumer-perf-test": {"--print-metrics", "--threads", "--num-fetch-threads"},
    "backup": {"--debug"},
    "restore": {"--batch-size", "--debug"},
}
"""Every flag that changes nothing; whoever gives one is told why."""


def test_every_flag_is_read_or_says_that_it_has_no_effect() -> None:
    found: dict[str, set[str]] = {}
    for module, tool in tools():
        for flag in unread(module, tool):
            found.setdefault(tool.name, set()).add(flag.names)
    assert found == IDLE
    declared: dict[str, set[str]] = {}
    for _, tool in tools():
        for flag in tool.flags:
            if flag.no_effect:
                declared.setdefault(tool.name, set()).add(flag.names)
    assert declared == IDLE


def run(tool: Tool, *words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run_tool(tool, words, Output(io.StringIO(), is_terminal=False)) == 0
    return capsys.readouterr().err


def test_a_flag_that_nothing_asked_for_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def main(given: Given, out: Output) -> None:
        if given.has("add"):
            given.number("count")

    idle = Flag("--force", no_effect="nobody is asked")
    flags = (Flag("--add"), Flag("--list"), Flag("--count", takes="N", kind=int, default=1), idle)
    tool = Tool("example", "Does it.", flags, main)
    assert run(tool, "--add", "--count", "3", capsys=capsys) == ""
    said = run(tool, "--count", "3", "--force", capsys=capsys)
    assert said.splitlines() == [
        "--count has no effect: nothing on this line needs it.",
        "--force has no effect: nobody is asked.",
    ]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_flag_of_another_action_is_refused(action: str) -> None:
    needed = {"reassignment-json-file": "f", "topics-to-move-json-file": "f", "broker-list": "1"}
    own = [f"--{key}={needed[key]}" for key in PERMITTED[action] if key in needed]
    foreign = [
        flag for flag in REASSIGN.flags if flag.key not in (*ACTIONS, *ANYWHERE, *PERMITTED[action])
    ]
    assert foreign
    for flag in foreign:
        word = f"{flag.names}=1" if flag.takes else flag.names
        given = parse(REASSIGN.all_flags(), [f"--{action}", *own, word])
        with pytest.raises(Exception, match=f"{flag.key}.* can't be used with action"):
            reassign(given, Output(io.StringIO()))


def test_what_only_java_has_a_use_for_is_named_when_a_broker_starts() -> None:
    options = server_start.parse(["-name", "kafkaServer", "-loggc"])
    assert [each.partition(":")[0] for each in options.ignored] == ["-name", "-loggc"]
