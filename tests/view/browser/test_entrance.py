"""The entrance, as a browser comes to it: from a file, and from pages of other servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.view.conftest import Serve


def test_a_link_in_a_file_leads_to_the_pages(
    chromium: Any, serve: Serve, pack: Path, tmp_path: Path
) -> None:
    """The browser takes it for a link of another site, and keeps the cookie back at first."""
    pages = serve(pack)
    file = tmp_path / "open.html"
    file.write_text(f'<meta http-equiv="refresh" content="0; url={pages.link}&by=size">')
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_url(f"{pages.root}/?by=size")
        page.get_by_role("heading").first.wait_for()
        assert "p.ffr" in page.title()
