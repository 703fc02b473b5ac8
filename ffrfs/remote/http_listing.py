"""The files of a directory on an HTTP server: the links of its listing page.

nginx (autoindex), Apache, Python's http.server and others make such pages. Only links to
names directly in the directory count. The pages come without Content-Length, which obstore
needs, so they are requested through the standard library.

Not here: listings of buckets (object_origin.py).
Concurrency: asyncio; a thread waits for the server.
"""

from __future__ import annotations

import asyncio
import urllib.request
from html.parser import HTMLParser
from urllib.error import HTTPError
from urllib.parse import quote, urljoin, urlsplit

from ffrfs.errors import RemoteError
from ffrfs.remote.url import RemoteUrl

_PAGE_MAX = 16 << 20


async def names_in(url: RemoteUrl, seconds: float) -> list[str]:
    """Names as URLs have them, percent signs and all. Raises RemoteError, OSError."""
    page = await asyncio.to_thread(_page, url, seconds)
    if len(page) > _PAGE_MAX:
        raise RemoteError.at(url.shown, f"its listing has more than {_PAGE_MAX >> 20} MiB")
    links = _Links()
    links.feed(page.decode("utf-8", "replace"))
    names = {_name(link, url) for link in links.found}
    names.discard("")
    if not names:
        raise RemoteError.at(
            url.shown, "the server lists no files here (autoindex); name the files one by one"
        )
    return list(names)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None  # urllib then raises HTTPError, as for any status but 200


_OPENER = urllib.request.build_opener(_NoRedirects)


def _page(url: RemoteUrl, seconds: float) -> bytes:
    # Users may write spaces and letters beyond ASCII as they are.
    written = quote(url.text, safe=":/?#[]@!$&'()*+,;=%~")
    request = urllib.request.Request(written, headers={"User-Agent": "ffrfs"})
    try:
        with _OPENER.open(request, timeout=seconds) as answer:
            page: bytes = answer.read(_PAGE_MAX + 1)
        return page
    except HTTPError as error:
        error.close()  # it holds the connection
        raise


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += (value for name, value in attrs if name == "href" and value)


def _name(link: str, url: RemoteUrl) -> str:
    """The name in directory `url` to which the link leads; empty: it leads elsewhere."""
    try:
        there = urlsplit(urljoin(url.shown, link))
    except ValueError:
        return ""
    here = urlsplit(url.shown)
    if (there.scheme, there.netloc, there.query) != (here.scheme, here.netloc, ""):
        return ""
    if not there.path.startswith(here.path):
        return ""
    name = there.path[len(here.path) :]
    return "" if "/" in name or not name.isprintable() else name
