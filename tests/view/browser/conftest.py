"""Fixtures of tests in a browser: Debian's Chromium, by Playwright's blocking API.

A test whose page writes an error to the console, throws, or breaks its content security policy,
fails. Tests take a page's errors out of `errors` if they provoke them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.view.conftest import Serve
from tests.view.pages import Pages


class Tabs:
    """Open pages of a browser. `errors`: what they complained about."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._contexts: list[Any] = []
        self.errors: list[str] = []

    def open(self, pages: Pages, path: str = "/", *, width: int = 1200, dark: bool = False) -> Any:
        """Return a page of Playwright at `path`, with the cookie, in a browser of its own."""
        context = self._browser.new_context(
            viewport={"width": width, "height": 844},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        context.set_default_timeout(30_000)
        self._contexts.append(context)
        name, _, value = pages.cookie.partition("=")
        context.add_cookies([{"name": name, "value": value, "url": pages.root}])
        page = context.new_page()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(pages.root + path)
        return page

    def _console(self, message: Any) -> None:
        text = f"{message.text} ({message.location.get('url')})"
        # Only its thumbnail's answer says that an Example has no picture.
        if message.type == "error" and not ("404" in text and "/thumbnail?" in text):
            self.errors.append(text)

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One browser for each file: pytest-xdist gives all its tests to one process."""
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(f"browser {item.path.stem}"))


# Not of the session: until it ends, its event loop counts as this thread's running one, which
# tests of other rooms would see.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="could not import playwright")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium here (apt-get install chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=program, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        yield browser
        browser.close()


@pytest.fixture
def tabs(chromium: Any, serve: Serve) -> Iterator[Tabs]:
    """Closed before the servers: a page would complain about the end of its stream."""
    opened = Tabs(chromium)
    yield opened
    opened.close()
    assert opened.errors == []
