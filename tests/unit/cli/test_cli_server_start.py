"""The command line and where settings come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cli.servers.server_start import Options, UsageFault, parse, run, settings_of


def test_arguments_may_come_in_any_order() -> None:
    expected = Options("server.properties", {"broker.id": "3", "log.dirs": "a=b"}, True)
    words = ["--override", "broker.id=3", "--override", "log.dirs=a=b"]
    assert parse(["-daemon", "server.properties", *words]) == expected
    assert parse([*words, "server.properties", "-daemon"]) == expected


def test_what_only_kafkas_script_needs_is_accepted() -> None:
    assert parse(["-name", "kafkaServer", "-loggc", "x.properties"]).file == "x.properties"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--override"], "--override needs a value"),
        (["--override", "broker.id"], "--override broker.id must look like key=value."),
        (["--override", "=3"], "--override =3 must look like key=value."),
        (["--verbose"], "there is no option --verbose"),
        (["a.properties", "b.properties"], "a.properties and b.properties were given"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageFault, match=sentence):
        parse(words)


def test_overrides_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nlog.dirs=/file\nnum.partitions=1\n")
    options = Options(str(file), {"broker.id": "3"}, False)
    environment = {"KAFKA_BROKER_ID": "2", "KAFKA_LOG_DIRS": "/environment", "KAFKA_HOME": "/opt"}
    assert settings_of(options, environment) == {
        "broker.id": "3",
        "log.dirs": "/environment",
        "num.partitions": "1",
    }


def test_without_a_file_the_broker_is_local_and_keeps_its_data_here() -> None:
    settings = settings_of(Options(None, {"broker.id": "3"}, False), {})
    assert settings == {
        "broker.id": "3",
        "log.dirs": "data",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
    }


def test_without_a_file_older_names_for_address_and_folder_still_count() -> None:
    settings = settings_of(Options(None, {"port": "1234", "log.dir": "/x"}, False), {})
    assert settings == {"port": "1234", "log.dir": "/x"}


def test_a_file_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([str(tmp_path / "missing.properties")]) == 1
    printed = capsys.readouterr()
    assert printed.err.strip().endswith("missing.properties: No such file or directory.")
    assert len(printed.err.splitlines()) == 1
    (tmp_path / "binary.properties").write_bytes(b"\xff\xfe\x00")
    assert run([str(tmp_path / "binary.properties")]) == 1
    assert "not text in UTF-8" in capsys.readouterr().err


def test_a_bad_value_is_one_sentence_with_key_and_limit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["--override", "num.io.threads=0"]) == 1
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 1
    assert "num.io.threads" in printed
    assert "at least 1" in printed
