"""The tutorial and the how-to pages: every block of code on them is run, as a reader would."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau import Admin, NewTopic, Producer
from moldau.testing.broker_process import BrokerProcess, free_port
from tests.support.page_blocks import Reader, blocks_of

DOCS = Path(__file__).parent.parent.parent / "docs"
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
START = "moldau server-start -daemon"
NEEDS_JAVA = ("6. A pipeline on Spark", "7. A cluster")


def sections(page: str) -> list[tuple[str, str]]:
    """Headings of the second level with what stands below each."""
    text = (DOCS / page).read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with the topic that the pages speak of."""
    with BrokerProcess(tmp_path_factory.mktemp("pages"), overrides=QUICK) as process:
        with Admin(bootstrap_servers=process.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", partitions=3)])
        with Producer(bootstrap_servers=process.bootstrap) as producer:
            for number in range(60):
                producer.send("orders", b"order", partition=number % 3)
        yield process.bootstrap


@pytest.mark.parametrize("page", ["consuming.md", "producing.md"])
def test_every_program_of_a_page_does_its_work(page: str, orders: str, tmp_path: Path) -> None:
    reader = Reader(tmp_path, {"localhost:9092": orders})
    blocks = blocks_of((DOCS / page).read_text(encoding="utf-8"))
    assert len(blocks) >= 4
    for block in blocks:
        reader.follow(block)


def tutor(folder: Path) -> Iterator[Reader]:
    port = free_port()
    own = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": folder / "data", **QUICK}
    overrides = " ".join(f"--override {key}={value}" for key, value in own.items())
    instead = {"localhost:9092": f"127.0.0.1:{port}", START: f"{START} {overrides}"}
    # The newcomer's environment is the one that runs the tests.
    instead |= {"python3 -m venv .venv && . .venv/bin/activate": "", "pip install": ": pip install"}
    try:
        yield Reader(folder, instead)
    finally:
        stop = [sys.executable, "-m", "moldau.main", "server-stop"]
        subprocess.run(stop, env={"MOLDAU_RUN_DIR": str(folder / "run")}, check=False)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    yield from tutor(tmp_path)


def test_the_tutorial_works_from_its_start(reader: Reader) -> None:
    for title, text in sections("tutorial.md"):
        if title not in NEEDS_JAVA:
            for block in blocks_of(text):
                reader.follow(block)


@pytest.mark.long
def test_the_tutorial_works_to_its_end(reader: Reader) -> None:
    """With Spark and ZooKeeper; the cluster takes the ports of the page."""
    for title, text in sections("tutorial.md"):
        if title.startswith("7."):
            reader.instead = {
                "--brokers 3": f"--brokers 3 --port {(port := free_port())}",
                "localhost:9092": f"127.0.0.1:{port}",
            }
        for block in blocks_of(text):
            reader.follow(block)


def test_every_page_is_reached_from_the_first_one() -> None:
    """No page is an orphan, and no link is dead: files, and headings in them."""
    project = DOCS.parent
    todo, seen, dead = [project / "README.md"], set(), []
    while todo:
        page = todo.pop()
        if page in seen:
            continue
        seen.add(page)
        text = page.read_text(encoding="utf-8")
        for target, heading in re.findall(r"\]\(([^)#\s]*)(#[^)\s]*)?\)", without_code(text)):
            if target.startswith(("http:", "https:", "mailto:")):
                continue
            path = (page.parent / target).resolve() if target else page
            if not path.exists():
                dead.append(f"{page.name}: {target}")
            elif path.suffix == ".md":
                if heading and heading[1:] not in headings(path):
                    dead.append(f"{page.name}: {target}{heading}")
                todo.append(path)
            elif path.is_dir():
                todo += sorted(path.glob("*.md"))
    assert dead == []
    assert sorted(p.relative_to(project).as_posix() for p in set(DOCS.rglob("*.md")) - seen) == []


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)


def headings(path: Path) -> set[str]:
    """As readers of Markdown name them in links."""
    text = re.sub(
        r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}
