"""The faults of the faulty server: the words that the tests and its process share."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum


class Kind(StrEnum):
    SLOW_DOWN = "503 SlowDown"  # `seconds`: the value of Retry-After; None: no such header
    ERROR = "500"
    DENIED = "403"
    RESET = "connection reset in mid-body"
    SHORT = "connection closed in mid-body"
    STALL = "no answer at all"
    STALL_IN_BODY = "no more bytes in mid-body"
    WRONG_RANGE = "the right bytes, Content-Range one byte further"
    WRONG_TOTAL = "Content-Range says that the object is larger"
    CHANGED = "another ETag; 412 to If-Match"
    CHANGED_SILENTLY = "another ETag; If-Match ignored"
    NO_ETAG = "no ETag"
    NO_VERSION = "neither ETag nor Last-Modified"
    ODD_HEADERS = "ETag and Last-Modified that say nothing"
    WHOLE = "200 and all of it, instead of 206"
    WRONG_BYTES = "as many bytes, each of them wrong"
    ENDLESS = "a body that does not end"
    ENDLESS_HEADER = "a header that does not end"
    REDIRECT = "307 to `location`"
    LOGIN = "200 and a page of HTML"


@dataclass(frozen=True)
class Fault:
    """The first fault that fits a request decides the answer; at most one does."""

    kind: Kind
    below: str = "/"  # paths that begin with it
    method: str | None = None
    after: int = 0  # so many fitting requests are answered well before
    times: int | None = None  # so many answers; None: until mend()
    seconds: float | None = None
    location: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Fault:
        fields = json.loads(text)
        return cls(**{**fields, "kind": Kind(fields["kind"])})
