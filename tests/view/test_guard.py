"""The guard of the viewer: the token, the host's name, only GET, and headers of each answer."""

from __future__ import annotations

import contextlib
import http.client
import socket
from pathlib import Path

import pytest

from ffrfs.view.server import Listener
from tests.view.conftest import Serve
from tests.view.pages import Answer, Pages


def refused(answer: Answer, status: int, text: str) -> bool:
    assert (answer.status, "set-cookie" in answer.headers) == (status, False)
    assert b"secret" not in answer.body
    return text in answer.text


@pytest.mark.parametrize(
    ("target", "cookie"),
    [
        *((target, "") for target in ("/", "/static/style.css", "/statistics", "/health?scrub=1")),
        *(
            ("/", cookie)
            for cookie in ("{name}=", "{name}=wrong", "other={token}", "{name}", "\x7f")
        ),
        *((f"/?token={wrong}", "") for wrong in ("", "wrong", "{token}&token={token}", "%FF")),
        ("/?Token={token}", ""),
        ("/?token=wrong", "{name}={token}"),
    ],
)
def test_requests_without_the_right_token_are_refused(
    pages: Pages, target: str, cookie: str
) -> None:
    values = {"name": pages.cookie.partition("=")[0], "token": pages.token}
    headers = {"Cookie": cookie.format(**values)} if cookie else None
    answer = pages.ask(target.format(**values), headers=headers)
    assert refused(answer, 403, "token of its link")


@pytest.mark.parametrize("other", ['prefs={"dark": true}', "name=Jane Doe", "a/b=1", "="])
def test_cookies_of_other_servers_do_not_hide_ours(pages: Pages, other: str) -> None:
    """Cookies are shared by all ports of a host."""
    assert pages.ask("/", headers={"Cookie": f"{other}; {pages.cookie}"}).status == 200


def test_token_is_removed_from_the_address(pages: Pages) -> None:
    """A user who copies the address of a page does not give the token away."""
    answer = pages.ask(f"/statistics?a=%2F&token={pages.token}&b=")
    assert (answer.status, answer.headers["location"]) == (303, "/statistics?a=%2F&b=")
    name, _, rest = answer.headers["set-cookie"].partition("=")
    assert name == f"ffrfs-{pages.port}"
    assert rest.split("; ") == [pages.token, "HttpOnly", "Path=/", "SameSite=Strict"]


def test_redirection_stays_on_this_host(pages: Pages) -> None:
    """A browser takes a path that begins with two slashes for another host."""
    for slashes in ("//", "/%5C", "/\\"):
        answer = pages.ask(f"{slashes}elsewhere.example/?token={pages.token}")
        assert answer.headers["location"] in ("/elsewhere.example/", "/%5Celsewhere.example/")


def test_redirection_keeps_names_that_are_not_utf_8(pages: Pages) -> None:
    answer = pages.ask(f"/item?key=%FF&token={pages.token}")
    assert answer.headers["location"] == "/item?key=%FF"


def test_each_server_has_a_token(serve: Serve, pages: Pages, pack: Path) -> None:
    other = serve(pack)
    assert len(pages.token) >= 32 and pages.token != other.token
    assert other.ask(f"/?token={pages.token}").status == 403


@pytest.mark.parametrize(
    "host",
    ["elsewhere.example", "elsewhere.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "[::1]"],
)
def test_requests_for_other_host_names_are_refused(pages: Pages, host: str) -> None:
    """A page of a host whose name now resolves to this machine (DNS rebinding) gets nothing."""
    headers = {"Host": host.format(port=pages.port), "Cookie": pages.cookie}
    assert refused(pages.ask("/", headers=headers), 421, "another name")
    answer = pages.ask(f"/?token={pages.token}", headers={"Host": headers["Host"]})
    assert refused(answer, 421, "another name")


def test_host_header_may_omit_port_80() -> None:
    with socket.socket() as unused:
        assert Listener(unused, "::1", 80, "token").host_headers == {"[::1]", "[::1]:80"}
        assert Listener(unused, "::1", 8080, "token").host_headers == {"[::1]:8080"}


def test_localhost_is_an_accepted_host_name(pages: Pages) -> None:
    headers = {"Host": f"LocalHost:{pages.port}", "Cookie": pages.cookie}
    assert pages.ask("/", headers=headers).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_methods_that_write_are_refused(pages: Pages, method: str) -> None:
    answer = pages.ask("/health?scrub=1", method=method, headers={"Cookie": pages.cookie})
    assert refused(answer, 405, "only read")
    assert answer.headers["allow"] == "GET, HEAD"
    assert not pages.data("/health")["has_begun"]


def test_head_is_get_without_a_body(pages: Pages) -> None:
    answer = pages.ask("/", method="HEAD", headers={"Cookie": pages.cookie})
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("path", ["/", "/statistics", "/health", "/static/style.css", "/nothing"])
def test_headers_of_each_answer(pages: Pages, path: str) -> None:
    headers = pages.get(path).headers
    policy = dict(
        one.strip().partition(" ")[::2] for one in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["base-uri"] == "'none'" and policy["form-action"] == "'self'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/..%2fapp.py"],
)
def test_static_paths_cannot_leave_the_static_directory(pages: Pages, path: str) -> None:
    answer = pages.get(path)
    assert (answer.status, b"import" in answer.body, b"root:" in answer.body) == (404, False, False)


def test_frame_of_a_notebook(pages: Pages) -> None:
    """A notebook is another site, so a frame gets a cookie that browsers send from frames."""
    target = f"/?token={pages.token}"
    answer = pages.ask(target, headers={"Sec-Fetch-Dest": "iframe"})
    assert answer.headers["set-cookie"].endswith("SameSite=None; Secure; Partitioned")


def fetched(pages: Pages, target: str, site: str, mode: str, dest: str) -> int:
    """Return the status of the answer to a request with these Sec-Fetch headers."""
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    return pages.ask(target, headers={"Cookie": pages.cookie, **headers}).status


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_pages_of_other_ports_may_only_link_to_pages(pages: Pages, site: str) -> None:
    for target in ("/health?scrub=1", "/statistics?again=1"):
        assert fetched(pages, target, site, "no-cors", "image") == 403
        assert fetched(pages, target, site, "navigate", "document") == 403
    assert not pages.data("/health")["has_begun"]
    assert fetched(pages, "/static/style.css", site, "no-cors", "style") == 403
    assert fetched(pages, "/", site, "navigate", "document") == 200
    assert fetched(pages, "/", site, "navigate", "iframe") == 200  # a notebook
    assert fetched(pages, "/", site, "navigate", "embed") == 403
    assert fetched(pages, "/", "same-origin", "cors", "empty") == 200
    assert fetched(pages, "/health?scrub=1", "none", "navigate", "document") == 303


def test_an_overlong_header_ends_only_its_connection(pages: Pages) -> None:
    """The header ends its connection, not the server."""
    with contextlib.suppress(http.client.HTTPException, OSError):
        assert pages.ask("/", headers={"X": "x" * 100_000}).status == 431
    assert pages.get("/").status == 200
