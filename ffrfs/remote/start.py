"""The settings that a fetcher gets at its start, through a pipe that no other process reads.

Not here: credentials, which it finds by itself (store.py).
Concurrency: values that do not change.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Self

from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl


@dataclass(frozen=True)
class Start:
    """A fetcher's settings. `signed` maps URLs without their secret part to the whole URLs.

    `roots`: the whole URLs that clients may open; a directory among them allows the objects
    directly in it. None allows all URLs.
    """

    settings: RemoteSettings
    signed: dict[str, str] = field(repr=False)
    flight_size: int
    roots: frozenset[str] | None = field(default=None, repr=False)

    def to_json(self) -> str:
        settings = self.settings.to_json()
        roots = None if self.roots is None else sorted(self.roots)
        fields = {"settings": settings, "signed": self.signed, "flight_size": self.flight_size}
        return json.dumps(fields | {"roots": roots})

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields = json.loads(text)
        settings = RemoteSettings.from_json(fields["settings"])
        # A daemon of an older version names no roots.
        roots = None if fields.get("roots") is None else frozenset(fields["roots"])
        return cls(settings, fields["signed"], fields["flight_size"], roots)

    def whole(self, url: str) -> str:
        """Return the URL with its secret part, if it or its directory has one."""
        _, _, query = self.signed.get(url[: url.rfind("/") + 1], "").partition("?")
        return self.signed.get(url) or (f"{url}?{query}" if query else url)

    def allows(self, url: RemoteUrl) -> bool:
        """Return whether clients may open or list the URL."""
        if self.roots is None or url.text in self.roots:
            return True
        folder = dataclasses.replace(url, key=url.key[: url.key.rfind("/") + 1])
        return folder.text in self.roots
