"""The pin, which identifies the bytes of an object.

Not here: where pins come from (origin.py). No state; any thread.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

from ffrfs.errors import RemoteError
from ffrfs.remote.url import RemoteUrl

_TEXT_MAX = 1024
_SIZE_MAX = (1 << 63) - 1
_PIN_KINDS: dict[str, type | tuple[type, ...]] = {
    "size": int,
    "etag": (str, type(None)),
    "version": (str, type(None)),
    "mtime_ns": int,
}


@dataclass(frozen=True)
class Pin:
    """An object as it was when it was opened; `etag` and `version` if the server sends them."""

    url: RemoteUrl
    size: int
    etag: str | None
    version: str | None
    mtime_ns: int  # 0: the server sends no time

    @property
    def is_identified(self) -> bool:
        """Whether the server distinguishes the object from another one of the same size."""
        return self.etag is not None or self.version is not None or self.mtime_ns != 0

    def identity(self, endpoint: str | None) -> tuple[str, str, int]:
        """Return URL, version and size; the cache keeps only a digest of the secret part."""
        version = f"{endpoint}\0{self.url.query}\0{self.etag}\0{self.version}\0{self.mtime_ns}"
        return self.url.shown, version, self.size

    def to_text(self, *, with_url: bool = True) -> str:
        """Return the pin as JSON with the URL's secret part left out.

        State files have the URL already, and no room for another long one.
        """
        fields = asdict(self) | {"url": self.url.shown}
        if not with_url:
            del fields["url"]
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str, url: RemoteUrl, *, with_url: bool = True) -> Self:
        """Return the pin of `url` from a text of to_text(); the URL's signature may differ by now.

        `with_url`: the text must have the URL; else it may. Raises RemoteError for any other text.
        """
        try:
            fields = json.loads(text)
            shown = fields.pop("url") if with_url else fields.pop("url", url.shown)
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
            raise RemoteError.at(url.shown, "its pin is damaged; open it again") from None
        if (
            shown != url.shown
            or fields.keys() != _PIN_KINDS.keys()
            or not all(_is_kind(fields[name], kind) for name, kind in _PIN_KINDS.items())
        ):
            raise RemoteError.at(url.shown, "its pin is damaged, or that of another object")
        return cls(url=url, **fields).checked()

    def checked(self) -> Self:
        """Return the pin itself. Raises RemoteError if the server's values exceed the limits."""
        texts = (text for text in (self.etag, self.version) if text is not None)
        if not 0 <= self.size <= _SIZE_MAX or abs(self.mtime_ns) > _SIZE_MAX:
            why = "the server sent a size or a time beyond all limits: its fault"
        elif not all(len(text) <= _TEXT_MAX and text.isprintable() for text in texts):
            why = (
                f"the server sent an ETag or version over {_TEXT_MAX} characters, or not printable"
            )
        else:
            return self
        raise RemoteError.at(self.url.shown, why)


def _is_kind(value: object, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
