"""Guard: the only entrance of the server. A request passes with the token, by GET, to our host.

A browser sends the cookie to every port of our host, and also for requests of pages of other ports.
Such a page may only open pages of ours without effects, in a tab or in the frame of a notebook.

The printed link has the token. Its first request gets a cookie and is sent on to the same page
without it, so that no page that is shown, and no address that is copied, has it. The Host header
must be ours: else a page from elsewhere could make its own name mean this server (DNS rebinding).

Pages run no script but ours; the rules for members are in safe_bytes.py. Stateless; any thread.
"""

from __future__ import annotations

import hmac
import html
from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "media-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors "
)
_NO_TOKEN = (
    "This page needs the token of its link: open the link that `ffrfs view` printed, or write "
    "?token=… behind this address.\n"
)
_OTHERS = (
    "A page of another server asked for this, which may only lead to pages that are looked at.\n"
)
_EFFECTS = {"scrub", "again"}  # parameters that begin or end work


class Guard:
    """`hosts`: the values of the Host header that are ours. `framed_by`: who may frame a page."""

    def __init__(
        self, app: ASGIApp, token: str, hosts: Collection[str], framed_by: str = "'none'"
    ) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._policy = _POLICY + framed_by
        self._places = {"document"} if framed_by == "'none'" else {"document", "iframe"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return None
        answer = self._refusal(scope) or self._welcome(scope)
        await (answer or self._app)(scope, receive, lambda message: send(self._safe(message)))
        return None

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("This server has another name.\n", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("Pages are only read: GET.\n", 405, {"allow": "GET, HEAD"})
        return None

    def _welcome(self, scope: Scope) -> Response | None:
        """Return the answer to a request that has the token in its address, or none at all."""
        query = parse_qsl(
            scope["query_string"].decode("ascii", "replace"),
            keep_blank_values=True,
            errors="surrogateescape",
        )
        tokens = [value for name, value in query if name == "token"]
        cookie = HTTPConnection(scope).cookies.get(self._cookie_name(scope), "")
        if not tokens and self._is_right(cookie):
            has_effect = not _EFFECTS.isdisjoint(name for name, _ in query)
            return None if self._is_ours(scope, has_effect) else PlainTextResponse(_OTHERS, 403)
        if len(tokens) != 1 or not self._is_right(tokens[0]):
            return PlainTextResponse(_NO_TOKEN, 403)
        others = [(name, value) for name, value in query if name != "token"]
        rest = urlencode(others, errors="surrogateescape")
        # Two slashes, or what browsers take for them, would lead to another host.
        path = scope["raw_path"].decode("ascii", "replace").lstrip("/\\")
        answer = self._onward(scope, f"/{path}" + (f"?{rest}" if rest else ""))
        # In another site's frame, browsers send a cookie only with these; they take Secure from a
        # loopback address, other programs do not.
        is_in_frame = Headers(scope=scope).get("sec-fetch-dest") == "iframe"
        site = "SameSite=None; Secure; Partitioned" if is_in_frame else "SameSite=Strict"
        answer.headers["set-cookie"] = (
            f"{self._cookie_name(scope)}={self._token}; HttpOnly; Path=/; {site}"
        )
        return answer

    def _is_ours(self, scope: Scope, has_effect: bool) -> bool:
        """Return whether a page of ours, or no page, asks; or another page merely opens ours."""
        headers = Headers(scope=scope)
        if headers.get("sec-fetch-site") not in ("same-site", "cross-site"):
            return True
        is_led = headers.get("sec-fetch-mode") == "navigate"
        return is_led and headers.get("sec-fetch-dest") in self._places and not has_effect

    @staticmethod
    def _onward(scope: Scope, target: str) -> Response:
        """Return an answer that leads to the same page without the token."""
        headers = Headers(scope=scope)
        way = headers.get("sec-fetch-site"), headers.get("sec-fetch-dest")
        if way != ("cross-site", "document"):
            return RedirectResponse(target, 303)
        # A link on another site, or in the file of --open: a redirection would still count as
        # that site's, and have no cookie.
        return Response(
            f'<meta http-equiv="refresh" content="0; url={html.escape(target)}">\n',
            media_type="text/html",
        )

    def _is_right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(errors="surrogateescape"), self._token.encode())

    @staticmethod
    def _cookie_name(scope: Scope) -> str:
        return f"ffrfs-{scope['server'][1]}"  # cookies do not tell ports apart

    def _safe(self, message: Message) -> Message:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            headers.setdefault("content-security-policy", self._policy)
            headers.setdefault("cache-control", "no-store")
            headers["x-content-type-options"] = "nosniff"
            headers["referrer-policy"] = "no-referrer"
            headers["cross-origin-resource-policy"] = "same-origin"
            message["headers"] = headers.raw
        return message
