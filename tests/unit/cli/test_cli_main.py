"""`moldau` alone: help that teaches, a version, and a hint for whoever mistypes."""

from __future__ import annotations

import pytest

from moldau import __version__
from moldau.main import COMMANDS, main


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    for name, (_, sentence) in COMMANDS.items():
        assert name in printed
        assert sentence in printed


def test_no_command_is_an_error_that_helps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    assert "usage: moldau <command>" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"moldau {__version__}\n"


@pytest.mark.parametrize("typed", ["serverstart", "server-strat", "kafka-server-start.sh"])
def test_an_unknown_command_gets_a_suggestion(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([typed]) == 1
    assert "did you mean `moldau server-start`?" in capsys.readouterr().err


def test_a_command_unlike_any_other_points_to_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frobnicate"]) == 1
    assert "`moldau --help` lists the commands" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert f"usage: moldau {name}" in capsys.readouterr().out
