"""Thumbnails: what they show, what has none, and the limits of the processes that make them."""

from __future__ import annotations

import io
import os
import signal
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from ffrfs.view import child as child_module
from ffrfs.view.thumbnails import Thumbnails
from tests.view.conftest import Serve
from tests.view.examples import ODD_NAME, encoded, odd_pack, packed, turned, write


def shown(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def large_png() -> bytes:
    return encoded(Image.new("L", (8000, 7000)))


def huge_png() -> bytes:
    """Return a small PNG whose header claims 3,600 megapixels."""
    data = encoded(Image.new("L", (8, 7)))
    body = b"IHDR" + struct.pack(">II", 60_000, 60_000) + data[24:29]
    return data[:12] + body + struct.pack(">I", zlib.crc32(body)) + data[33:]


def slow_jpeg() -> bytes:
    """Return a small file that takes a minute to decode, since it repeats its last scan."""
    data = encoded(Image.new("L", (5000, 5000), 90), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * 20_000 + b"\xff\xd9"


@pytest.fixture
def thumbnails() -> Iterator[Thumbnails]:
    made = Thumbnails(seconds=1)
    yield made
    made.close()


def test_a_thumbnail_is_rotated_by_its_exif_orientation(tmp_path: Path, serve: Serve) -> None:
    photo = encoded(Image.new("RGB", (800, 400), "red"), "JPEG", exif=turned())
    pages = serve(packed(tmp_path / "a.ffr", {"a/photo.jpg": photo}))
    answer = pages.get("/thumbnail", key="a/photo.jpg", side=200, v="1")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/jpeg")
    assert shown(answer.body).size == (100, 200)
    assert "max-age" in answer.headers["cache-control"]


def test_a_name_that_is_not_utf8(tmp_path: Path, serve: Serve) -> None:
    pack = odd_pack(tmp_path / "x.ffr", encoded(Image.new("RGB", (20, 20))))
    assert serve(pack).get("/thumbnail", key=ODD_NAME).status == 200


def test_files_that_are_no_pictures_have_no_thumbnail(tmp_path: Path, serve: Serve) -> None:
    files = {"a/text.jpg": b"no picture", "a/page.svg": b"<svg onload='alert(1)'/>"}
    files["a/cut.png"] = encoded(Image.new("RGB", (9, 9)))[:40]
    pages = serve(packed(tmp_path / "a.ffr", files))
    for key in (*files, "a"):
        answer = pages.get("/thumbnail", key=key)
        assert (answer.status, answer.body) == (204, b""), key
    assert pages.get("/thumbnail", key="absent.png").status == 404


def test_an_example_shows_its_first_picture(tmp_path: Path, serve: Serve) -> None:
    picture = encoded(Image.new("RGB", (64, 32), "blue"))
    examples: list[dict[str, Any]] = [
        {"a": b"text", "image/encoded": picture},
        {"a": b"text"},
        {"context": {"a": 1}, "feature_lists": {"frames": [picture, picture]}},
    ]
    pages = serve(write(tmp_path / "a.tfrecord", *examples, b"\xff no Example"))
    answers = [pages.get("/thumbnail", key=number) for number in range(4)]
    assert [answer.status for answer in answers] == [200, 204, 200, 204]
    assert shown(answers[2].body).size == (64, 32)


def test_kinds_of_pixels(thumbnails: Thumbnails) -> None:
    glass = Image.new("RGBA", (300, 300), (255, 0, 0, 0))
    made = thumbnails.make(lambda: encoded(glass), 100)
    assert made is not None and shown(made).format == "WEBP"
    assert shown(made).convert("RGBA").getpixel((50, 50))[3] == 0  # type: ignore[index]
    depths = Image.new("I;16", (2, 1))
    depths.putpixel((1, 0), 900)
    made = thumbnails.make(lambda: encoded(depths), 100)
    assert made is not None
    grey = shown(made).convert("L")
    low, high = grey.getextrema()
    assert low < 5 and high > 250  # type: ignore[operator]
    inks = Image.new("CMYK", (30, 30))
    assert thumbnails.make(lambda: encoded(inks, "JPEG"), 100) is not None


@pytest.mark.parametrize("make_bomb", [huge_png, large_png, slow_jpeg])
def test_decompression_bombs_have_no_thumbnail(
    thumbnails: Thumbnails, make_bomb: Callable[[], bytes]
) -> None:
    bomb = make_bomb()
    assert len(bomb) < 4 << 20
    assert thumbnails.make(lambda: bomb, 100) is None
    good = encoded(Image.new("RGB", (20, 20)))
    assert thumbnails.make(lambda: good, 100) is not None


def test_a_child_has_limits_and_is_replaced(thumbnails: Thumbnails) -> None:
    assert thumbnails.make(lambda: encoded(Image.new("RGB", (20, 20))), 100)
    (child,) = children()
    limits = Path(f"/proc/{child}/limits").read_text()
    rows = {line[:25].strip(): line[25:].split()[0] for line in limits.splitlines()[1:]}
    assert int(rows["Max address space"]) == 512 << 20
    assert int(rows["Max cpu time"]) < 10
    assert int(rows["Max file size"]) == 0
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert thumbnails.make(lambda: encoded(Image.new("RGB", (30, 20))), 100)


LIMITED = """
import io, sys
from PIL import Image
from ffrfs.view import sandbox
from ffrfs.view.safe_bytes import Content
from ffrfs.view.thumbnails import Thumbnails
stream = io.BytesIO()
Image.new("RGB", (20, 20)).save(stream, "PNG")
picture = stream.getvalue()
print(Thumbnails().make(lambda: picture, 16) is not None)
content = Content("a.png", len(picture), lambda at, size: picture[at:at + size])
print(sandbox.run("picture_header", content)["width"])
"""


def test_lower_resource_limits_of_the_program_are_kept() -> None:
    """A batch system or a login node sets limits that an ordinary user cannot raise again."""
    no_right = ["setpriv", "--bounding-set", "-sys_resource"] if os.geteuid() == 0 else []
    limits = ["prlimit", "--cpu=600:600", f"--as={3 << 28}:{3 << 28}"]
    command = [*no_right, *limits, sys.executable, "-c", LIMITED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n20\n", "")


def test_a_thumbnail_that_timed_out_is_tried_again(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, a timeout says nothing about the picture."""
    pages = serve(packed(tmp_path / "a.ffr", {"a.png": encoded(Image.new("RGB", (20, 20)))}))

    class AtOnce(threading.Timer):
        def start(self) -> None:
            self.function()

    with monkeypatch.context() as busy:
        busy.setattr(child_module, "threading", SimpleNamespace(Timer=AtOnce))
        answer = pages.get("/thumbnail", key="a.png", v="1")
        assert (answer.status, answer.headers["cache-control"]) == (204, "no-store")
    assert pages.get("/thumbnail", key="a.png", v="1").status == 200


def children() -> list[int]:
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(one) for one in found if b"ffrfs.view.shrink" in command(int(one))]


def command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_equal_pictures_share_one_thumbnail(thumbnails: Thumbnails) -> None:
    picture = encoded(Image.new("RGB", (20, 20)))
    first = thumbnails.make(lambda: picture, 100)
    assert thumbnails.make(lambda: bytes(bytearray(picture)), 100) is first
    assert thumbnails.make(lambda: picture, 99) is not first
    assert thumbnails.make(lambda: None, 100) is None
