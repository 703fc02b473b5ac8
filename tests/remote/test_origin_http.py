"""Files of a real HTTP server (nginx): pinned, read by ranges, listed; and failures."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.errors import ChangedAtOriginError, RemoteError, RemoteNotFoundError, RemoteTimeoutError
from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.origin import origin_for, read_bytes
from ffrfs.remote.pin import Pin
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl, parse_url
from tests.interpreter import python
from tests.remote.origins import SETTINGS, names, pin, read
from tests.remote.servers.nginx import Nginx, nginx, nginx_of
from tests.remote.servers.program import free_ports
from tests.remote.servers.scripted import Answer, Asked, good, scripted

IMPATIENT = RemoteSettings(timeout_s=2)


@pytest.fixture
def folder(web: Nginx, web_root: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder that the server serves."""
    place = web_root / tmp_path.name
    place.mkdir()
    yield place


def at(web: Nginx, folder: Path, name: str) -> RemoteUrl:
    return parse_url(f"{web.url}/{folder.name}/{name}")


def test_ranges(web: Nginx, folder: Path) -> None:
    data = os.urandom(3 << 20)
    (folder / "a.ffr").write_bytes(data)
    found = pin(at(web, folder, "a.ffr"))
    assert found.size == len(data)
    assert found.etag
    assert found.mtime_ns == (folder / "a.ffr").stat().st_mtime_ns // 10**9 * 10**9
    for offset, size in ((0, 1), (5, 100), (1 << 20, 1 << 20), (len(data) - 7, 7), (9, 0)):
        assert read(found, offset, size) == data[offset : offset + size]
    for offset, size in ((len(data), 1), (-1, 2), (0, len(data) + 1)):
        with pytest.raises(RemoteError, match="has no bytes"):
            read(found, offset, size)


def test_an_empty_file(web: Nginx, folder: Path) -> None:
    (folder / "empty").touch()
    found = pin(at(web, folder, "empty"))
    assert found.size == 0
    assert read(found, 0, 0) == b""


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a b%é+~#?&.ffr", "a%20b%25%C3%A9+~%23%3F&.ffr"),
        ("a b", "a b"),
        ("100%25", "100%2525"),
        ("[x]", "[x]"),
    ],
)
def test_names(web: Nginx, folder: Path, name: str, written: str) -> None:
    (folder / name).write_bytes(b"hello")
    found = pin(at(web, folder, written))
    assert read(found, 1, 3) == b"ell"
    assert [pin(text).size for text in names(at(web, folder, ""))] == [5]


def test_a_query_is_sent_and_not_shown(web: Nginx, folder: Path) -> None:
    (folder / "a").write_bytes(b"hello")
    url = at(web, folder, "a?signature=hush")
    assert read(pin(url), 0, 5) == b"hello"
    assert "signature=hush" in "".join(web.requests())
    with pytest.raises(RemoteNotFoundError) as caught:
        pin(at(web, folder, "none?signature=hush"))
    assert "hush" not in str(caught.value)


def test_listing(web: Nginx, folder: Path) -> None:
    for name in ("b.ffr", "a.ffr", "with space", "ä"):
        (folder / name).write_bytes(b"x")
    (folder / "below").mkdir()
    (folder / "below" / "c.ffr").write_bytes(b"x")
    prefix = f"{web.url}/{folder.name}/"
    assert names(at(web, folder, "")) == [
        prefix + name for name in ("%C3%A4", "a.ffr", "b.ffr", "with%20space")
    ]
    with pytest.raises(RemoteError, match="lists no files here"):
        (folder / "below" / "c.ffr").unlink()
        names(at(web, folder, "below/"))
    with pytest.raises(RemoteNotFoundError):
        names(at(web, folder, "none/"))
    with pytest.raises(RemoteError, match="ends in /"):
        names(at(web, folder, "a.ffr"))


@pytest.mark.parametrize(
    ("typed", "linked"),
    [
        ("my dir/", "/my%20dir/a.ffr"),
        ("d\u00e9/", "/d%C3%A9/a.ffr"),
        ("d%c3%a9/", "/d%C3%A9/a.ffr"),
        ("d/", "HTTP://LOCALHOST:{port}/d/a.ffr"),
    ],
)
def test_a_listing_with_absolute_links(typed: str, linked: str) -> None:
    def answer(asked: Asked) -> Answer:
        here = linked.format(port=port)
        others = ("/a.ffr", f"{here}/b", f"{here}?b", "http://localhost:1/d/a.ffr", "//[/")
        links = "".join(f'<a href="{link}">x</a>' for link in (here, *others))
        return page(links)

    with scripted(answer) as port:
        url = f"http://localhost:{port}/{typed}"
        assert names(url) == [f"{url}a.ffr"]


def test_a_listing_that_is_not_html() -> None:
    why = pytest.raises(RemoteError, match="its listing is not readable HTML")
    with scripted(lambda _: page("<![foo bar")) as port, why:
        names(f"http://localhost:{port}/")


def page(text: str) -> Answer:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode(), False


@pytest.mark.parametrize("place", ["data{}.example:80", "data{}.example"])
@pytest.mark.parametrize(
    ("there", "is_there"),
    [
        ("http://DATA{}.example/new", True),
        ("http://data{}.example:80/new", True),
        ("http://data{}.example:81/new", False),
        ("http://me@data{}.example/new", False),
        ("https://data{}.example/new", False),
        ("http://data{}.example:x/new", False),
    ],
)
def test_a_redirect_to_another_spelling_of_the_server(
    place: str, there: str, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(asked: Asked) -> Answer:
        if "new" in asked.target:
            return good(b"x")
        moved = f"Location: {there.format(port)}\r\nContent-Length: 0"
        return f"HTTP/1.1 302 Found\r\n{moved}\r\n\r\n".encode(), False

    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with scripted(answer) as port:  # as a proxy, since only root may listen at port 80
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        url = parse_url(f"http://{place.format(port)}/old")
        if is_there:
            assert pin(url).size == 10
        else:
            with pytest.raises(RemoteError, match="redirects to another place"):
                pin(url)


@pytest.mark.parametrize("how", ["replaced", "longer", "removed"])
def test_a_file_that_changed(web: Nginx, folder: Path, how: str) -> None:
    path = folder / "a"
    path.write_bytes(b"before")
    os.utime(path, (1, 1))
    found = pin(at(web, folder, "a"))
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes(b"after!" if how == "replaced" else b"before and after")
    with pytest.raises(ChangedAtOriginError, match="changed at its origin"):
        read(found, 0, 6)


def test_urls_that_are_not_objects(web: Nginx, folder: Path) -> None:
    with pytest.raises(RemoteNotFoundError, match="there is no such object"):
        pin(at(web, folder, "none"))
    with pytest.raises(RemoteError, match="is not an object; for all packs below it add a /"):
        pin(at(web, folder, ""))
    (folder / "index.html").write_text("<html>please sign in")
    os.rename(folder / "index.html", folder / "data.html")
    assert pin(at(web, folder, "data.html")).size == 20  # this page was asked for


def test_an_unreachable_server() -> None:
    refused = pytest.raises(RemoteTimeoutError, match=r"no answer for 1\.8 s .*refuses connections")
    with free_ports(1) as [port], refused:
        pin(f"http://127.0.0.1:{port}/a", IMPATIENT)
    with pytest.raises(RemoteTimeoutError, match=r"DNS does not know the name of nohost\.invalid"):
        pin("http://nohost.invalid/a", IMPATIENT)


def test_a_server_without_tls(web: Nginx) -> None:
    with pytest.raises(RemoteError, match="TLS") as caught:
        pin(f"https://127.0.0.1:{web.port}/a")
    assert not isinstance(caught.value, RemoteTimeoutError)


def test_a_server_that_comes_back(tmp_path: Path) -> None:
    """A request that begins while it is away is answered."""
    (tmp_path / "a").write_bytes(b"hello")

    async def reading(found: Pin, server: Nginx) -> bytes:
        server.program.kill()
        traffic = FetchCounters()
        task = asyncio.create_task(
            read_bytes(origin_for(found.url, SETTINGS, traffic), found, 0, 5)
        )
        while traffic["remote_retries"] < 2:
            await asyncio.sleep(0.02)
        await asyncio.to_thread(server.start_again)
        return bytes(await task)

    with nginx(tmp_path) as server:
        found = pin(f"{server.url}/a")
        assert asyncio.run(reading(found, server)) == b"hello"


def test_without_obstore(tmp_path: Path) -> None:
    (tmp_path / "obstore.py").write_text("raise ImportError\n")
    program = (
        "import asyncio\n"
        "from ffrfs.remote.origin import origin_for\n"
        "from ffrfs.remote.settings import RemoteSettings\n"
        "from ffrfs.remote.url import parse_url\n"
        "url = parse_url('s3://bucket/a')\n"
        "asyncio.run(origin_for(url, RemoteSettings()).pin(url))\n"
    )
    result = python("-c", program, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert result.stderr.splitlines()[-1] == (
        "ffrfs.errors.RemoteError: s3://bucket: reading URLs needs obstore: "
        "pip install 'ffrfs[remote]'"
    )


def test_a_proxy(web: Nginx, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forwarding(_: Path, port: int) -> str:
        forward = "location / { proxy_pass http://$http_host$request_uri; }"
        return f"server {{ listen 127.0.0.1:{port}; {forward} }}\n"

    (folder / "a").write_bytes(b"hello")
    settings = RemoteSettings(timeout_s=31)  # no other test has it, so no kept connection fits
    with nginx_of(forwarding) as proxy:
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert read(pin(at(web, folder, "a"), settings), 1, 3, settings) == b"ell"
        assert "".join(proxy.requests()).count(f"/{folder.name}/a 206 ") == 2
        # nginx makes no tunnels.
        with pytest.raises(RemoteTimeoutError, match=r"the proxy does not connect to it; check"):
            pin("https://127.0.0.1:1/a", RemoteSettings(timeout_s=3))
