"""`/bytes`: what a browser may show in place, what becomes a download, and parts of files."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from tests.ffrecord_file import flip_byte, record_extents, write_folder, write_records
from tests.index_file import indexed_pack
from tests.view.conftest import Serve
from tests.view.pages import Answer, Pages

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
JPEG = b"\xff\xd8\xff\xe0" + bytes(64)
SCRIPT = b"<script>alert(1)</script>"
LARGE = bytes(range(256)) * 40_000  # three pieces


def kind_and_place(answer: Answer) -> tuple[str, str]:
    assert answer.status == 200
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    return answer.headers["content-type"], answer.headers["content-disposition"].split(";")[0]


SHOWN = {
    "a.png": (PNG, "image/png"),
    "a.JPEG": (JPEG, "image/jpeg"),
    "wrong.png": (JPEG, "image/jpeg"),
    "none": (PNG, "image/png"),
    "a.gif": (b"GIF89a" + bytes(20), "image/gif"),
    "b.gif": (b"GIF89a/*" + SCRIPT, "image/gif"),  # a browser runs no part of a picture
    "a.webp": (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    "a.bmp": (b"BM\x10\0\0\0\0\0\0\0", "image/bmp"),
    "a.avif": (b"\0\0\0\x20ftypavif", "image/avif"),
    "a.wav": (b"RIFF\x10\0\0\0WAVEfmt ", "audio/wav"),
    "a.mp3": (b"ID3\4\0", "audio/mpeg"),
    "b.mp3": (b"\xff\xfb\x90\0", "audio/mpeg"),
    "a.ogg": (b"OggS\0", "audio/ogg"),
    "a.flac": (b"fLaC\0", "audio/flac"),
    "a.mp4": (b"\0\0\0\x20ftypisom", "video/mp4"),
    "a.webm": (b"\x1a\x45\xdf\xa3", "video/webm"),
}
DOWNLOADED = {
    "a.svg": b'<svg xmlns="http://www.w3.org/2000/svg">' + SCRIPT + b"</svg>",
    "a.html": SCRIPT,
    "a.xml": b"<?xml version='1.0'?>",
    "a.js": b"alert(1)",
    "a.css": b"@import 'javascript:alert(1)'",
    "a.json": b"{}",
    "a.csv": b"=cmd|' /C calc'!A0",
    "a.txt": SCRIPT,
    "a.pdf": b"%PDF-1.7",
    "image.html": PNG,  # a picture with the name of a page
    "gif.js": b"GIF89a/*" + bytes(8) + b"*/=alert(1)",
    "text.png": SCRIPT,
    "svg": b"<svg/>",
    "short.png": PNG[:7],
    "utf16.mp3": "\ufeff<script>".encode("utf-16-le"),
    "empty.png": b"",
}


def test_only_safe_types_are_shown_inline(tmp_path: Path, serve: Serve) -> None:
    files = {name: data for name, (data, _) in SHOWN.items()} | DOWNLOADED
    pages = serve(write_folder(tmp_path / "x.ffr", files))
    for name, data in files.items():
        answer = pages.get("/bytes", key=name)
        assert answer.body == data, name
        expected = (
            (SHOWN[name][1], "inline")
            if name in SHOWN
            else ("application/octet-stream", "attachment")
        )
        assert kind_and_place(answer) == expected, name


def test_a_record_of_a_plain_file_needs_no_extension(tmp_path: Path, serve: Serve) -> None:
    pages = serve(write_records(tmp_path / "plain.ffr", [b"text", PNG]))
    assert kind_and_place(pages.get("/bytes", key="000000001")) == ("image/png", "inline")
    assert kind_and_place(pages.get("/bytes", key="000000000"))[1] == "attachment"


def test_a_part_has_the_type_of_its_own_bytes(tmp_path: Path, serve: Serve) -> None:
    pages = serve(write_folder(tmp_path / "x.ffr", {"a.png": PNG[:8] + SCRIPT}))
    part = pages.get("/bytes", key="a.png", offset=8, size=8)
    assert part.body == b"<script>"
    assert kind_and_place(part)[1] == "attachment"
    assert pages.get("/bytes", key="a.png", offset=1000, size=5).body == b""
    rest = pages.get("/bytes", key="a.png", offset=8)  # has the length that it promises
    assert (rest.body, rest.headers["content-length"]) == (SCRIPT, str(len(SCRIPT)))


@pytest.fixture
def large(tmp_path: Path, serve: Serve) -> Pages:
    return serve(write_folder(tmp_path / "x.ffr", {"a.mp4": LARGE}))


def part(pages: Pages, asked: str) -> Answer:
    return pages.ask("/bytes?key=a.mp4", headers={"Cookie": pages.cookie, "Range": asked})


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=100-199", 100, 200),
        ("bytes=4194300-8388700", 4_194_300, 8_388_701),
        ("bytes=10239990-", len(LARGE) - 10, len(LARGE)),
        ("bytes=-7", len(LARGE) - 7, len(LARGE)),
        ("bytes=5-99999999999", 5, len(LARGE)),
        ("bytes=-99999999999", 0, len(LARGE)),
    ],
)
def test_ranges(large: Pages, asked: str, first: int, end: int) -> None:
    answer = part(large, asked)
    assert answer.status == 206
    assert answer.headers["content-range"] == f"bytes {first}-{end - 1}/{len(LARGE)}"
    assert answer.body == LARGE[first:end]
    assert kind_and_place(Answer(200, answer.headers, b""))


def test_unsatisfiable_ranges_are_refused_and_unsupported_ones_ignored(large: Pages) -> None:
    for asked in (f"bytes={len(LARGE)}-", "bytes=9-5", "bytes=-0"):
        answer = part(large, asked)
        assert (answer.status, answer.body) == (416, b""), asked
        assert answer.headers["content-range"] == f"bytes */{len(LARGE)}"
    for asked in ("bytes=1-2,5-6", "bytes=-", "lines=1-2", "bytes=a-b"):
        answer = part(large, asked)
        assert (answer.status, answer.body == LARGE) == (200, True), asked


def test_head_gives_the_size_without_a_body(large: Pages) -> None:
    answer = large.ask("/bytes?key=a.mp4", method="HEAD", headers={"Cookie": large.cookie})
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == str(len(LARGE))


def test_no_path_leaves_the_pack(tmp_path: Path, serve: Serve) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    pages = serve(write_folder(tmp_path / "x.ffr", {"d": {"a": b"A"}, "b": b"B"}))
    for key in ("../secret", "d/../../secret", "d/..", str(tmp_path / "secret"), "\0", "\n", "."):
        assert pages.get("/bytes", key=key).status == 404, key
    assert pages.get("/bytes").status == 404
    assert pages.get("/bytes", key="d").status == 404
    assert pages.get("/bytes", key="/d//a").body == b"A"  # as in PackedFolder


def test_no_damaged_byte_is_sent(tmp_path: Path, serve: Serve) -> None:
    pack = write_folder(tmp_path / "x.ffr", {"a.png": PNG, "b.png": PNG})
    flip_byte(pack, record_extents(pack)[0][0] + 40)
    pages = serve(pack)
    answer = pages.get("/bytes", key="a.png")
    assert answer.status == 500
    assert "&#39;a.png&#39;: record 0" in answer.text
    assert pages.get("/bytes", key="b.png").body == PNG


def test_damage_after_the_first_piece_truncates_the_response(
    tmp_path: Path, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """The core verifies a large record in parts: the index has a checksum of each part."""
    pack = tmp_path / "x.ffr"
    pack.write_bytes(indexed_pack({b"a.mp4": LARGE}))
    flip_byte(pack, record_extents(pack)[0][0] + 9_000_000)
    pages = serve(pack)
    with pytest.raises(http.client.IncompleteRead) as cut:
        pages.get("/bytes", key="a.mp4")
    assert LARGE.startswith(cut.value.partial)
    (line,) = caplog.text.splitlines()  # not a fault of ffrfs, with a traceback
    assert f"an answer breaks off: {pack}: 'a.mp4': record 0 " in line
