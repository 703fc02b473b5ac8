"""Reads the page of a web server's directory: the page links to the files in it.

nginx (autoindex), Apache, Python's http.server and others make such pages. Only links to names
directly in the directory count.

Not here: the requests (http_origin.py). Concurrency: any thread; no state.
"""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from ffrfs.errors import RemoteError
from ffrfs.remote.url import RemoteUrl

_PORTS = {"http": 80, "https": 443}


def names_in(page: str, url: RemoteUrl) -> set[str]:
    """Return the names in directory `url` to which `page` links. Raises RemoteError."""
    links = _Links()
    try:
        links.feed(page)
    except (AssertionError, ValueError):  # the parser raises it for a text that is not HTML
        raise RemoteError.at(url.shown, "its listing is not readable HTML") from None
    return {_name(link, url) for link in links.found} - {""}


def server_of(parts: SplitResult) -> tuple[str, str, str, int | None]:
    """Return scheme, user, host and port, the same for all spellings. Raises ValueError."""
    user = parts.netloc.rpartition("@")[0]
    return parts.scheme, user, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += (value for name, value in attrs if name == "href" and value)


def _name(link: str, url: RemoteUrl) -> str:
    """Return the name in directory `url` to which the link leads, or "" if it leads elsewhere."""
    here = urlsplit(url.shown)
    try:
        there = urlsplit(urljoin(url.shown, link))
        if there.query or server_of(there) != server_of(here):
            return ""
    except ValueError:
        return ""
    # The user may have written letters of the directory that the server writes with percent signs.
    *above, name = there.path.split("/")
    is_here = [*map(unquote, above)] == [*map(unquote, here.path.split("/")[:-1])]
    return name if is_here and name.isprintable() else ""
