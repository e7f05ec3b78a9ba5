"""Debian's Chromium without a screen, driven by Selenium, for the pages of the console."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
FLAGS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage")
WAIT_SECONDS_MAX = 60
NARROW = 390


class Browser:
    def __init__(self, driver: Any, address: str) -> None:
        self.driver = driver
        self.address = address.rstrip("/")

    def open(self, path: str) -> None:
        self.driver.get(self.address + path)

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return found

    def one(self, selector: str) -> Any:
        return self.until(lambda: self.all(selector), f"{selector} is not on the page")[0]

    def open_at(self, width: int, path: str) -> bool:
        """Whether the page, at this width, has to be moved sideways."""
        self._resize(width)
        self.open(path)
        return self._is_wider(width)

    def foreign(self) -> list[str]:
        """What the page has fetched from other places than its own."""
        names = "return performance.getEntriesByType('resource').map(each => each.name)"
        own = self.driver.execute_script("return location.origin") + "/"
        return [each for each in self.driver.execute_script(names) if not each.startswith(own)]

    def fill(self, name: str, text: str) -> None:
        field = self.one(f"[name='{name}']:not([type=hidden])")
        if field.tag_name == "select":
            field.find_element(By.CSS_SELECTOR, f"option[value='{text}']").click()
        else:
            field.clear()
            field.send_keys(text)

    def press(self, label: str) -> None:
        buttons = [each for each in self.all("button") if each.text.startswith(label)]
        assert buttons, f"no button {label} among {[each.text for each in self.all('button')]}"
        buttons[0].click()

    @property
    def text(self) -> str:
        return str(self.one("main").text)

    def until(self, holds: Callable[[], Any], fault: str) -> Any:
        """What `holds` gives as soon as it is something. The page may be replaced by the next one
        while it is looked at: then it is looked at again."""
        gone = (StaleElementReferenceException,)
        wait = WebDriverWait(self.driver, WAIT_SECONDS_MAX, ignored_exceptions=gone)
        return wait.until(lambda _: holds(), fault)

    def until_text(self, words: str) -> None:
        self.until(lambda: words in self.text, f"{words!r} does not appear")

    def complaints(self) -> list[str]:
        """What the browser has written into its own log: blocked scripts, failed loads."""
        return [row["message"] for row in self.driver.get_log("browser")]

    def set_theme(self, theme: str) -> None:
        """What the system prefers: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def is_too_wide(self, width: int) -> bool:
        """Whether the page has to be moved sideways at this width."""
        self._resize(width)
        return self._is_wider(width)

    def _resize(self, width: int) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
        )

    def _is_wider(self, width: int) -> bool:
        wide = self.driver.execute_script("return document.documentElement.scrollWidth")
        return bool(wide > width)


@contextmanager
def chromium(address: str, *flags: str) -> Iterator[Browser]:
    options = Options()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver, address)
    finally:
        driver.quit()
