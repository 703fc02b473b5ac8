"""A browser enters the viewer: from a link in a file, and from pages of other servers."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.view.browser.conftest import Tabs
from tests.view.conftest import Serve

NO_ICON = '<link rel="icon" href="data:,">'


def test_a_link_in_a_local_file_opens_the_pages(
    chromium: Any, serve: Serve, pack: Path, tmp_path: Path
) -> None:
    """The browser takes it for a link of another site, and does not send the cookie at first."""
    pages = serve(pack)
    file = tmp_path / "open.html"
    file.write_text(f'<meta http-equiv="refresh" content="0; url={pages.link}&by=size">')
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_url(f"{pages.root}/?by=size")
        page.get_by_role("heading").first.wait_for()
        assert "p.ffr" in page.title()


@contextmanager
def notebook(content: str) -> Iterator[str]:
    """Serve one page on another port; yield its URL, with {} for the scheme and the host."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"{{}}:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("host", ["http://localhost", "http://127.0.0.1"])
def test_a_notebook_shows_the_pages_in_a_frame(
    chromium: Any, serve: Serve, pack: Path, host: str
) -> None:
    """The links and the scripts of the pages work in the frame, too."""
    pages = serve(pack)
    content = f'<iframe src="{pages.link}"></iframe>'
    with notebook(content) as address, chromium.new_context() as context:
        page = context.new_page()
        page.goto(address.format(host))
        frame = page.frame_locator("iframe")
        frame.get_by_role("link", name="Health").click()
        frame.get_by_role("link", name="Check all records").click()
        frame.get_by_text("All records are good.").wait_for()


def test_a_page_of_another_port_cannot_start_a_scrub(tabs: Tabs, serve: Serve, pack: Path) -> None:
    pages = serve(pack)
    with notebook(f'{NO_ICON}<img src="{pages.root}/health?scrub=1">') as address:
        page = tabs.open(pages)
        page.goto(address.format("http://127.0.0.1"))  # until the picture has loaded or failed
        assert not pages.data("/health")["has_begun"]
    tabs.errors.clear()  # the browser reported that the picture was refused
