"""The committed reference pages and configuration files tell what the tables say."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate import pages
from moldau.config.broker_config import BrokerConfig
from moldau.config.properties import parse_properties

ROOT = Path(__file__).parents[3]
PAGES = pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_generated_file_is_what_its_source_yields(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path], "run `make docs` and commit the file"


@pytest.mark.parametrize(
    "name", ["server.properties", "server-1.properties", "server-2.properties"]
)
def test_a_configuration_file_that_we_ship_is_accepted_without_a_remark(name: str) -> None:
    text = (ROOT / "config" / name).read_text()
    config, remarks = BrokerConfig.parse(parse_properties(text))
    assert remarks == []
    assert config.bound_endpoints[0].host == "127.0.0.1"
    # Keys that stand there as comments are keys too.
    as_comments = [line[1:] for line in text.splitlines() if line.startswith("#") and "=" in line]
    assert set(parse_properties("\n".join(as_comments))) <= set(BrokerConfig.rows)


def test_brokers_on_one_machine_do_not_share_a_port_a_number_or_a_directory() -> None:
    configs = [
        BrokerConfig.parse(parse_properties((ROOT / "config" / name).read_text()))[0]
        for name in ("server.properties", "server-1.properties", "server-2.properties")
    ]
    assert len({config.node_id for config in configs}) == 3
    assert len({config.bound_endpoints[0].port for config in configs}) == 3
    assert len({config.log_dirs for config in configs}) == 3
