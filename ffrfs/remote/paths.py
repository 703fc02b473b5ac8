"""Functions for code that takes names of files or directories, and also accepts URLs.

Not here: parsing URLs (url.py), the fetcher that reads them (session.py).
Concurrency: any thread.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable

from ffrfs.printable import shown_name
from ffrfs.remote.url import is_url, parse_url


def let_urls_in(names: Iterable[str]) -> None:
    """Prepare the native core if `names` has URLs; call it before using them. Paths cost nothing.

    Raises OptionError for a URL that ffrfs does not support.
    """
    urls = [name for name in names if is_url(name)]
    if urls:
        for url in urls:
            parse_url(url)
        _use_urls()


@functools.cache
def _use_urls() -> None:
    from ffrfs.remote.session import use_urls

    use_urls()


def absolute(name: str) -> str:
    """Return a path from the root, or the URL: other processes have other working directories."""
    return name if is_url(name) else os.path.abspath(name)


def is_folder(name: str) -> bool:
    """Return whether `name` is a directory; the URL of one ends in "/", before its query."""
    return shown_name(name).endswith("/") if is_url(name) else os.path.isdir(name)
