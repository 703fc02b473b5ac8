"""The page of a mount: the figures of `ffrfs top`, as they change."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ffrfs.view.view import view
from tests.ffrecord_file import flip_byte, record_extents
from tests.mount import probes
from tests.mount.command import ffrfs
from tests.mount.makers import MakeMount, PackTree
from tests.view.conftest import Serve
from tests.view.examples import packed
from tests.view.pages import Pages


@contextmanager
def stream(pages: Pages) -> Iterator[http.client.HTTPResponse]:
    with closing(http.client.HTTPConnection(pages.host, pages.port, timeout=60)) as connection:
        connection.request("GET", "/live/stream", headers={"Cookie": pages.cookie})
        yield connection.getresponse()


def event(answer: http.client.HTTPResponse) -> str:
    """Return the text of the next event."""
    lines = []
    while (line := answer.readline()) != b"\n":
        assert line.startswith(b"data: "), line
        lines.append(line.removeprefix(b"data: ").decode())
    return "".join(lines)


def test_live_figures_are_streamed(serve: Serve, mount: MakeMount, pack_tree: PackTree) -> None:
    made = mount(pack_tree({"a": b"x" * 1000, "b": b"y"}))
    pages = serve(made.path)
    assert 'href="/live"' in pages.get("/live").text
    found = pages.data("/live")
    assert (found["condition"], found["mountpoint"]) == ("live", str(made.path))
    assert [rate["title"] for rate in found["rates"]] == [
        *("MB/s", "requests/s", "latency", "hit rate")
    ]
    with stream(pages) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        event(answer)
        assert made.ask(probes.read, "a") == b"x" * 1000
        while '<th scope="row">read</th>' not in event(answer):
            pass  # the test's timeout ends it


def test_live_page_reports_an_unmount(serve: Serve, mount: MakeMount, pack_tree: PackTree) -> None:
    made = mount(pack_tree({"a": b"x"}))
    pages = serve(made.path)
    with stream(pages) as answer:
        assert "live</span>" in event(answer)
        assert ffrfs("umount", made.path).status == 0
        while "It is not mounted any more." not in event(answer):
            pass
    assert pages.data("/live")["condition"] == "gone"
    assert pages.get("/").status == 200  # the pack is still open


def test_unreadable_files_are_listed(serve: Serve, mount: MakeMount, tmp_path: Path) -> None:
    pack = packed(tmp_path / "p.ffr", {"a<b>": b"x" * 10})
    flip_byte(pack, record_extents(pack)[0][0])
    made = mount(pack)
    made.expect_log("checksum mismatch")
    pages = serve(made.path)
    with pytest.raises(OSError, match="Input/output error"):
        made.ask(probes.read, "a<b>")
    made.count_logged("checksum mismatch")  # this line may be logged after the answer
    (one,) = pages.data("/live")["unreadable"]
    assert one["path"] == "a<b>" and "checksum mismatch" in one["error"]
    assert "a&lt;b&gt;" in pages.get("/live").text


def test_streams_have_a_limit_and_end(serve: Serve, mount: MakeMount, pack_tree: PackTree) -> None:
    pages = serve(mount(pack_tree({"a": b"x"})).path)
    with stream(pages) as one, stream(pages) as two, stream(pages) as three:
        with stream(pages) as four:
            assert [answer.status for answer in (one, two, three, four)] == [200] * 4
            event(four)
            refused = pages.get("/live/stream")
            assert refused.status == 503 and "close one" in refused.text
        deadline_s = time.monotonic() + 60
        while True:  # until the server notices that the fourth has left
            with stream(pages) as again:
                if again.status == 200:
                    break
            assert time.monotonic() < deadline_s


def test_server_ends_while_a_stream_is_open(mount: MakeMount, pack_tree: PackTree) -> None:
    made = mount(pack_tree({"a": b"x"}))
    with view(made.path) as served:
        pages = Pages(served.url)
        with stream(pages) as answer:
            event(answer)
            served.close()


def test_a_pack_has_no_live_page(pages: Pages) -> None:
    assert 'href="/live"' not in pages.get("/").text
    for path in ("/live", "/live/stream"):
        assert pages.get(path).status == 404
