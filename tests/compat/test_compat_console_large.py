"""The list of 10,000 topics in a real Chromium: how soon it is there, warm and cold."""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path

import pytest

from moldau.admin import NewTopic
from moldau.testing import broker
from tests.support.chromium import CHROMIUM, Browser, chromium
from tests.support.console_browser import console_process

pytestmark = [
    pytest.mark.compat,
    pytest.mark.long,
    pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason="Chromium is not installed"),
]
TOPICS, AT_ONCE = 10_000, 500
PAINT_SECONDS_MAX = 0.5
PAINT = """
const paints = performance.getEntriesByType('paint');
return paints.length ? paints[paints.length - 1].startTime : null;
"""


def painted_s(browser: Browser, path: str) -> float:
    """From the navigation's begin to the first contentful paint."""
    browser.open("/new-topic")
    browser.open(path)
    return float(browser.until(lambda: browser.driver.execute_script(PAINT), "no paint")) / 1000


@pytest.mark.timeout(900)
def test_ten_thousand_topics_are_painted_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with broker(with_faults=False) as made:
        with made.admin() as admin:
            for first in range(0, TOPICS, AT_ONCE):
                names = [f"topic-{number:05}" for number in range(first, first + AT_ONCE)]
                admin.create_topics([NewTopic(name, 1, 1) for name in names]).check()
        with (
            console_process(made.bootstrap, tmp_path) as console,
            chromium(console.address) as browser,
        ):
            cold = painted_s(browser, "/topics")
            browser.until_text("10\u202f000 topics")
            # All that the list shows has been asked for now.
            browser.until(lambda: "0 B" in browser.text, "sizes never came")
            paths = ["/topics", "/topics?sort=size", "/topics?find=topic-09", "/topics?page=100"]
            warm = [painted_s(browser, path) for path in paths * 5]
            begun = time.perf_counter()
            size = len(console.get("/topics.json", rows=TOPICS).body)
            whole = time.perf_counter() - begun
        with capsys.disabled():
            print(
                f"\nfirst paint of {TOPICS} topics: cold {cold:.2f} s, then median"
                f" {statistics.median(warm):.2f} s, worst {max(warm):.2f} s; all of them as JSON"
                f" ({size >> 10} KiB) in {whole:.2f} s"
            )
        assert statistics.median(warm) < PAINT_SECONDS_MAX
