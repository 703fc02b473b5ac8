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
    """The page of the browser, for one test. `errors`: the errors that the page reported."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self.errors: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", self._thrown)

    def open(self, pages: Pages, path: str = "/", *, width: int = 1200, dark: bool = False) -> Any:
        """Return Playwright's page after it opened `path` with the viewer's cookie."""
        page = self._page
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme="dark" if dark else "light")
        name, _, value = pages.cookie.partition("=")
        page.context.add_cookies([{"name": name, "value": value, "url": pages.root}])
        page.goto(pages.root + path)
        return page

    def _console(self, message: Any) -> None:
        text = f"{message.text} ({message.location.get('url')})"
        # No error: only the 404 of its thumbnail says that an Example has no picture.
        if message.type == "error" and not ("404" in text and "/thumbnail?" in text):
            self.errors.append(text)

    def _thrown(self, error: Any) -> None:
        self.errors.append(str(error))

    def close(self) -> None:
        """Leave the server. Its pages' stored data need no cleaning: they belong to its port."""
        page = self._page
        page.goto("about:blank")
        page.remove_listener("console", self._console)
        page.remove_listener("pageerror", self._thrown)
        page.context.clear_cookies()
        page.context.clear_permissions()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start one browser for the room: pytest-xdist runs all tests of a group in one process."""
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("browser"))


# Its scope is not the session: until Playwright ends, its event loop counts as the running loop
# of this thread, and tests of other rooms would see it.
@pytest.fixture(scope="package")
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


# All tests share this page: a new page starts a process, which is a third of a test's CPU time.
@pytest.fixture(scope="package")
def only_page(chromium: Any) -> Iterator[Any]:
    with chromium.new_context(reduced_motion="reduce") as context:
        context.set_default_timeout(30_000)
        yield context.new_page()


@pytest.fixture
def tabs(only_page: Any, serve: Serve) -> Iterator[Tabs]:
    """Closed before the servers: the page would report the end of its stream as an error."""
    opened = Tabs(only_page)
    yield opened
    opened.close()
    assert opened.errors == []
