"""The page of a file: what it shows of each type, and the facts beside it."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from PIL import Image

import ffrfs
from tests.ffrecord_file import flip_byte, record_extents, write_folder, write_records
from tests.index_file import Link, indexed_pack
from tests.view.conftest import Serve, ViewOf
from tests.view.examples import ODD_NAME, encoded, odd_pack, picture


def test_facts(tmp_path: Path, serve: Serve) -> None:
    folder = tmp_path / "photos"
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/c.txt").write_text("text")
    (folder / "a/first.txt").write_text("")
    (folder / "a/b/c.txt").chmod(0o640)
    os.utime(folder / "a/b/c.txt", (1_700_000_000, 1_700_000_000))
    pack = tmp_path / "photos.ffr"
    ffrfs.pack_folder(folder, pack)
    pages = serve(pack)
    found = pages.data("/item", key="a/b/c.txt")
    offset, size = record_extents(pack)[found["facts"]["record"]]
    assert pack.read_bytes()[offset : offset + size] == b"text"
    assert found["facts"] == {
        "pack": str(pack),
        "record": found["facts"]["record"],
        "offset": offset,
        "size": 4,
        "checksum": f"{zlib.crc32(b'text'):08x}",
    }
    assert (found["state"], found["damage"]) == ("whole", None)
    assert found["stored"] == {
        "permissions": "rw-r----- (640)",
        "modified": "2023-11-14 22:13:20 UTC",
    }
    assert found["crumbs"] == [["a", "a"], ["b", "a/b"]]
    assert "All bytes matched just now" in pages.get("/item", key="a/b/c.txt").text
    assert [found["previous"], found["next"]] == [None, "a/first.txt"]
    text = pages.get("/item", key="a/b/c.txt").text
    assert 'rel="next" href="/item?key=a%2Ffirst.txt"' in text and 'rel="prev"' not in text


def test_a_directory_is_in_the_gallery(tmp_path: Path, serve: Serve) -> None:
    pages = serve(write_folder(tmp_path / "x.ffr", {"a&b": {"c": b""}}))
    answer = pages.get("/item", key="a&b")
    assert (answer.status, answer.headers["location"]) == (303, "/?folder=a%26b")
    assert pages.get("/item", key="absent").status == 404


def test_a_link_shows_where_it_leads(tmp_path: Path, serve: Serve) -> None:
    pack = tmp_path / "x.ffr"
    tree = {b"dead": Link(b"../../etc/passwd"), b"in": Link(b"d/f"), b"d": {b"f": b"F"}}
    pack.write_bytes(indexed_pack(tree))
    pages = serve(pack)
    inner, dead = (pages.data("/item", key=key) for key in ("in", "dead"))
    assert (inner["target"], inner["leads_to"]) == ("d/f", "d/f")
    assert (dead["target"], dead["leads_to"]) == ("../../etc/passwd", None)
    assert "The pack has nothing there." in pages.get("/item", key="dead").text
    assert 'href="/item?key=d%2Ff"' in pages.get("/item", key="in").text
    assert pages.get("/bytes", key="dead").status == 404


def test_damage_is_reported_in_one_line_beside_the_facts(tmp_path: Path, serve: Serve) -> None:
    pack = write_folder(tmp_path / "x.ffr", {"a.txt": b"SECRET" * 9})
    flip_byte(pack, record_extents(pack)[0][0] + 40)
    pages = serve(pack)
    found, text = pages.data("/item", key="a.txt"), pages.get("/item", key="a.txt").text
    with pytest.raises(ffrfs.ChecksumError) as error, ffrfs.PackedFolder(pack) as folder:
        folder["a.txt"]
    assert (found["state"], found["damage"]) == ("damaged", str(error.value))
    assert found["view"] is None
    assert found["facts"]["size"] == 54
    assert "SECRET" not in text
    assert 'role="alert"' in text
    assert 'download="' not in text


def test_a_file_truncated_while_it_is_served_is_unreadable(tmp_path: Path, serve: Serve) -> None:
    pack = write_folder(tmp_path / "x.ffr", {"a.txt": b"A" * 9, "b.txt": b"B" * 9})
    pages = serve(pack)
    os.truncate(pack, record_extents(pack)[1][0] + 4)
    assert pages.data("/item", key="a.txt")["state"] == "whole"
    found = pages.data("/item", key="b.txt")
    assert found["state"] == "unreadable"
    assert found["damage"].startswith(f"{pack}: ")
    assert "This file cannot be read." in pages.get("/item", key="b.txt").text


def test_a_picture_and_its_exif(view_of: ViewOf) -> None:
    exif = Image.Exif()
    exif[271] = "<b>Canon</b>"
    exif.get_ifd(0x8769)[0x9003] = "2024:05:01 12:00:00"
    shown = view_of("a.jpg", picture(30, 20, exif=exif))
    assert (shown["kind"], shown["source"]) == ("picture", "bytes")
    assert shown["facts"] == [["Format", "JPEG, RGB"], ["Pixels", "30 by 20"]]
    assert shown["exif"] == [["Make", "<b>Canon</b>"], ["DateTimeOriginal", "2024:05:01 12:00:00"]]
    assert "&lt;b&gt;Canon" in shown["html"]
    assert '<img class="shown" src="/bytes?key=a.jpg"' in shown["html"]


def test_a_picture_of_a_type_unknown_to_browsers_is_shown(tmp_path: Path, serve: Serve) -> None:
    pages = serve(
        write_folder(tmp_path / "x.ffr", {"a.tiff": encoded(Image.new("RGB", (30, 20)), "TIFF")})
    )
    source = re.search(r'<img class="shown" src="([^"]+)"', pages.get("/item", key="a.tiff").text)
    assert source is not None
    assert pages.get(html.unescape(source[1])).status == 200


@pytest.mark.parametrize(
    ("name", "begin", "tag"),
    [("a.mp3", b"ID3\3\0\0", "audio"), ("a.mp4", b"\0\0\0\x18ftypmp42", "video")],
)
def test_sound_and_video(view_of: ViewOf, name: str, begin: bytes, tag: str) -> None:
    shown = view_of(name, begin)
    assert shown["kind"] == tag
    assert f'<{tag} class="shown" controls' in shown["html"]


def test_text_in_parts_at_whole_characters(tmp_path: Path, serve: Serve) -> None:
    whole = "a" + "ä€😀" * 60_000
    pages = serve(write_folder(tmp_path / "x.ffr", {"a.txt": whole.encode()}))
    at: int | None = 0
    parts = []
    while at is not None:
        shown = pages.data("/item", key="a.txt", at=at)["view"]
        parts.append(shown["text"])
        at = shown["after"]
    assert len(parts) == 3
    assert "".join(parts) == whole
    text = pages.get("/item", key="a.txt", at=262144).text
    assert 'href="/item?key=a.txt&amp;at=0"' in text
    assert 'href="/item?key=a.txt&amp;at=524288"' in text


def test_text_that_is_not_utf8(view_of: ViewOf) -> None:
    assert view_of("a.txt", "Größe".encode("latin-1"))["text"] == "Gr\ufffd\ufffde"
    assert view_of("a.html", b"<script>alert(1)</script>")["kind"] == "text"


def test_json_is_indented(view_of: ViewOf) -> None:
    shown = view_of("a.json", '{"a":[1,"ä"]}'.encode())
    assert shown["kind"] == "json"
    assert shown["text"] == '{\n  "a": [\n    1,\n    "ä"\n  ]\n}'
    assert view_of("b.json", b'{"a":')["text"] == '{"a":'
    assert view_of("a.json", b'{"a":1}', **{"as": "text"})["text"] == '{"a":1}'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'id,n\n1,"a,\nb"\n'),
        ("a.csv", 'id;n\n1;"a,\nb"\n'),
        ("a.tsv", 'id\tn\n1\t"a,\nb"\n'),
    ],
)
def test_tables_of_text(view_of: ViewOf, name: str, text: str) -> None:
    shown = view_of(name, text.encode())
    assert shown["table"] == {"columns": ["id", "n"], "rows": [["1", "a,\nb"]]}
    assert shown["note"] is None


def test_the_first_rows_of_a_long_table(view_of: ViewOf) -> None:
    shown = view_of("a.csv", b"n\n" + b"".join(b"%d\n" % n for n in range(200_000)))
    assert shown["table"]["rows"] == [[str(n)] for n in range(100)]
    assert "after the first 100 are not shown" in shown["html"]


def test_hex(tmp_path: Path, serve: Serve) -> None:
    data = bytes(range(256)) * 4 + b"end" * 5 + b"."  # ends with a line
    pages = serve(write_folder(tmp_path / "x.ffr", {"a.bin": data}))
    first, second, last = (pages.data("/item", key="a.bin", at=at)["view"] for at in (0, 512, 1024))
    assert len(first["hex"]) == 32
    assert first["hex"][4] == [
        "00000040",
        "40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f",
        "@ABCDEFGHIJKLMNO",
    ]
    line = "65 6e 64 65 6e 64 65 6e 64 65 6e 64 65 6e 64 2e"
    assert last["hex"] == [["00000400", line, "endendendendend."]]
    pages_around = [(one["before"], one["after"]) for one in (first, second, last)]
    assert pages_around == [(None, 512), (0, 1024), (512, None)]
    assert pages.data("/item", key="a.bin", at="10000000")["view"] == last


NAMES = ["a b.txt", "-x", "it's.txt", 'a"b$(id)`id`\\', "a\nb", "<script>", "ü\u202e", "&amp;.txt"]


@pytest.mark.parametrize("name", NAMES)
def test_the_shown_commands_read_the_file(tmp_path: Path, serve: Serve, name: str) -> None:
    pack = write_folder(tmp_path / "it's $x.ffr", {name: b"content"})
    _lines_read(serve(pack).data("/item", key=name)["commands"])


def test_the_shown_commands_read_a_name_that_is_not_utf8(tmp_path: Path, serve: Serve) -> None:
    pages = serve(odd_pack(tmp_path / "x.ffr", b"content"))
    _lines_read(pages.data("/item", key=ODD_NAME)["commands"])
    assert "<h1>\\xff\\xfe&#39;\\</h1>" in pages.get("/item", key=ODD_NAME).text
    assert pages.get("/bytes", key=ODD_NAME).body == b"content"


def test_the_shown_commands_read_a_record_of_a_plain_file(tmp_path: Path, serve: Serve) -> None:
    pages = serve(write_records(tmp_path / "x.ffr", [b"other", b"content"]))
    _lines_read(pages.data("/item", key="000000001")["commands"])


def _lines_read(commands: dict[str, str]) -> None:
    assert "\n" not in "".join(commands.values())
    read = eval(commands["python"], {"ffrfs": ffrfs})
    assert bytes(read) == b"content"
    program = f'ffrfs() {{ "{sys.executable}" -m ffrfs "$@"; }}\n{commands["shell"]}'
    done = subprocess.run(["bash", "-c", program], capture_output=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (b"content", b"")


def test_names_are_escaped(tmp_path: Path, serve: Serve) -> None:
    name = "<img src=x onerror=alert(1)>\"'\n"
    pages = serve(write_folder(tmp_path / "x.ffr", {name: {name: b"text"}}))
    answer = pages.get("/item", key=f"{name}/{name}")
    assert "<img" not in answer.text
    assert json.loads(pages.get("/item", key=f"{name}/{name}", format="json").body)
    header = pages.get("/bytes", key=f"{name}/{name}").headers["content-disposition"]
    assert header == (
        "attachment; filename*=UTF-8''%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E%22%27%0A"
    )
