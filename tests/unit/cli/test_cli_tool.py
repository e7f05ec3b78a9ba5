"""The frame around every command: help, faults, closed pipes, Ctrl-C."""

from __future__ import annotations

import io
from importlib import import_module

import pytest

from moldau.cli.catalogue import COMMANDS
from moldau.cli.command_faults import CommandFault
from moldau.cli.completion import following
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.tool import INTERRUPTED, TERMINATED, Terminated, Tool, run_tool

TOOLS = [import_module(module).TOOL for module, _ in COMMANDS.values()]


def tool_that(raised: BaseException, **more: object) -> Tool:
    def main(given: Given, out: Output) -> None:
        raise raised

    return Tool("example", "Does it.", (Flag("--go"),), main)._replace(**more)


def run(tool: Tool, *words: str) -> tuple[int, str]:
    stream = io.StringIO()
    code = run_tool(tool, words, Output(stream, is_terminal=False))
    return code, stream.getvalue()


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_command_explains_itself_with_examples(tool: Tool) -> None:
    code, text = run(tool, "--help")
    assert code == 0
    assert f"usage: moldau {tool.name}" in text
    assert "examples:" in text
    for command in tool.commands:
        words = command.name.removeprefix(f"{tool.name} ")
        assert f"usage: moldau {tool.name} {words}" in run(tool, words, "--help")[1]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_command_can_answer_in_json(tool: Tool) -> None:
    for each in (tool, *tool.commands, *tool.beside):
        assert [flag.key for flag in each.all_flags()].count("json") == 1


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_shell_completes_every_shown_flag(tool: Tool) -> None:
    shown = {name for flag in tool.all_flags() if not flag.hidden for name in flag.names.split()}
    assert shown <= set(following(["moldau", tool.name, ""]))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_no_flag_is_declared_twice_and_every_shown_flag_is_explained(tool: Tool) -> None:
    for each in (tool, *tool.commands):
        names = [name for flag in each.all_flags() for name in flag.names.split()]
        assert len(names) == len(set(names))
        assert all(flag.help for flag in each.flags if not flag.hidden)


def test_a_fault_is_one_sentence_where_the_tool_prints_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    opening = "Error while doing it : "
    tool = tool_that(CommandFault("no"), fault_opening=opening, faults_on_stdout=True)
    assert run(tool, "--go") == (1, f"{opening}no\n")
    assert run(tool._replace(faults_on_stdout=False), "--go") == (1, "")
    assert f"{opening}no" in capsys.readouterr().err


def test_kafkas_name_of_an_error_is_there_for_those_who_search_for_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fault = CommandFault("no", java="org.apache.kafka.common.errors.TopicExistsException")
    run(tool_that(fault), "--go")
    assert "TopicExistsException" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "code"),
    [(KeyboardInterrupt(), INTERRUPTED), (Terminated(), TERMINATED), (BrokenPipeError(), 0)],
)
def test_interruptions_are_quiet(
    raised: BaseException,
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert run(tool_that(raised), "--go") == (code, "")
    assert capsys.readouterr().err == ""


def test_a_wrong_flag_points_to_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = run(tool_that(AssertionError("not reached")), "--g0")
    assert code == 1
    assert "did you mean --go?\nSee `moldau example --help`." in capsys.readouterr().err


def test_a_sub_command_is_found_before_or_after_the_flags() -> None:
    seen = []

    def main(given: Given, out: Output) -> None:
        seen.append((given.command, given.text("server"), given.has("fast")))

    inner = Tool("outer list", "Lists.", (Flag("--fast", "Fast."),), main)
    outer = Tool("outer", "Does it.", (Flag("--server", takes="H"),), main, commands=(inner,))
    assert run(outer, "--server", "h", "list", "--fast")[0] == 0
    assert run(outer, "list", "--server", "h")[0] == 0
    assert seen == [("list", "h", True), ("list", "h", False)]


def test_a_misspelt_sub_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    inner = Tool("outer list", "Lists.", (), lambda given, out: None)
    outer = Tool("outer", "Does it.", (), lambda given, out: None, commands=(inner,))
    assert run(outer, "lst")[0] == 1
    assert "did you mean list?" in capsys.readouterr().err
