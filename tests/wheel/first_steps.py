"""What a newcomer does with Moldau, by the commands and the library of an installation.

Run by the Python that Moldau is installed for, outside the repository: `make dist-test`, and
cibuildwheel for each wheel. It needs nothing but the standard library beside Moldau, and ends with
0 and one line, or with the first thing that went wrong.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import moldau
import moldau.testing

PUBLIC = ("admin", "aio", "authorization", "errors", "reporting", "serialization", "testing")


def command(*words: str, text: str = "", folder: Path | None = None) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "moldau.main", *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
    )
    assert ended.returncode == 0, f"moldau {' '.join(words)}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def the_package_is_whole() -> None:
    assert "site-packages" in (moldau.__file__ or ""), f"{moldau.__file__} is not an installation"
    for name in PUBLIC:
        module = importlib.import_module(f"moldau.{name}")
        for each in getattr(module, "__all__", ()):
            getattr(module, each)
    for each in moldau.__all__:
        getattr(moldau, each)


def kernels() -> str:
    names = ("batch_kernel", "batch_runs", "column_decoding", "column_encoding", "partitioner")
    found = [importlib.import_module(f"moldau.records.{name}").__file__ or "" for name in names]
    compiled = sum(not path.endswith(".py") for path in found)
    wanted = os.environ.get("MOLDAU_EXPECT_COMPILED")
    if wanted is not None:
        assert compiled == (len(names) if wanted == "1" else 0), found
    return f"{compiled} of {len(names)} kernels compiled"


def a_folder_is_laid_out(folder: Path) -> None:
    command("init", str(folder))
    told = subprocess.run(
        [folder / "bin" / "kafka-topics.sh", "--version"], capture_output=True, timeout=60
    )
    assert moldau.__version__.encode() in told.stdout, told
    assert (folder / "config" / "server.properties").exists()


def records_go_in_and_out() -> None:
    with moldau.testing.broker() as broker:
        there = ("--bootstrap-server", broker.bootstrap)
        command("topics", "--create", "--topic", "greetings", "--partitions", "3", *there)
        command("console-producer", "--topic", "greetings", *there, text="hello, moldau\n")
        with moldau.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("greetings", "moldau", key="hello").result(30)
        group = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000")
        printed = command("console-consumer", "--topic", "greetings", *group, *there)
        assert sorted(printed.split("\n")) == ["", "hello, moldau", "moldau"], printed
        broker.kill()
        broker.start()
        assert len(broker.read("greetings", count=2)) == 2
        command("doctor", *there)


def main() -> None:
    the_package_is_whole()
    told = kernels()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        a_folder_is_laid_out(Path(folder) / "my-kafka")
        records_go_in_and_out()
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"moldau {moldau.__version__} on Python {version}: all first steps work, {told}")


if __name__ == "__main__":
    main()
