"""A client of the viewer: it opens the printed link as a browser does, and keeps the cookie."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ffrfs.view.page import link


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Pages:
    """`url`: the printed link. get() does not follow a redirection, but returns it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self.link = url
        self.host, self.port = parts.hostname, parts.port
        self.root = f"{parts.scheme}://{parts.netloc}"
        (self.token,) = parse_qs(parts.query)["token"]
        welcome = self.ask(f"/?{parts.query}")
        assert welcome.status == 303, welcome
        self.cookie = welcome.headers["set-cookie"].split(";")[0]

    def get(self, path: str, **parameters: object) -> Answer:
        """Return the answer to `path`, with `parameters` as its query, if there are any."""
        return self.ask(link(path, **parameters), headers={"Cookie": self.cookie})

    def data(self, path: str, **parameters: object) -> Any:
        """Return a page's JSON."""
        answer = self.get(path, format="json", **parameters)
        assert answer.status == 200, answer
        return answer.json

    def ended(self, path: str, **parameters: object) -> Any:
        """Return a page's JSON when the work that it shows has ended; each request waits a bit."""
        deadline_s = time.monotonic() + 60
        while True:
            found = self.data(path, **parameters)
            work = found["jobs"] if "jobs" in found else [found["progress"]]
            if not any(one["is_running"] for one in work):
                return found
            assert time.monotonic() < deadline_s
            time.sleep(0.02)

    def ask(
        self, target: str, *, method: str = "GET", headers: dict[str, str] | None = None
    ) -> Answer:
        """Return the answer to a request that has only these headers, apart from Host."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(method, target, headers=headers or {})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()
