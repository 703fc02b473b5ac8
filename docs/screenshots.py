"""Makes the screenshots of viewer.md: `python docs/screenshots.py [NAME...]`.

It draws a data set of shapes, as files and as Examples with boxes, serves it with ffrfs.view(),
and takes a picture of each page with Chromium. Needs the extras `view`, `schema` and `check-view`,
a `chromium`, and /dev/fuse for the page of a mount.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw
from playwright.sync_api import Browser, sync_playwright

import ffrfs
from ffrfs.tfrecord import Example, TFRecordWriter

PICTURES = Path(__file__).resolve().parent / "viewer"
WIDTH, HEIGHT = 320, 240
COLOURS = {"circle": "#e4572e", "square": "#17bebb", "triangle": "#ffc914"}
# Reads all files again and again, and makes the kernel drop their pages. Two are damaged.
_READER = """
import os, pathlib, sys, time
while True:
    for path in pathlib.Path(sys.argv[1]).rglob("*.jpg"):
        file = os.open(path, os.O_RDONLY)
        try:
            os.read(file, 1 << 20)
        except OSError:
            pass
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
        time.sleep(0.002)
"""
Box = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Shot:
    """`data` names a source. `wait` is a selector of what the finished page shows."""

    data: str
    path: str
    wait: str
    is_dark: bool = False


SHOTS = {
    "gallery": Shot("examples", "/", "main img"),
    "example": Shot("examples", "/item?key=7", "main img"),
    "statistics": Shot("examples", "/statistics", ".features"),
    "folders": Shot("files", "/statistics", ".treemap", is_dark=True),
    "health": Shot("files", "/health", ".damage"),
    "live": Shot("mount", "/live", 'th:text-is("read")'),
}


def draw(random_: random.Random) -> tuple[bytes, list[Box]]:
    """Return a JPEG of some shapes, and where they are."""
    shade = random_.randrange(190, 245)
    picture = Image.new("RGB", (WIDTH, HEIGHT), (shade, shade, random_.randrange(200, 256)))
    pen = ImageDraw.Draw(picture)
    boxes: list[Box] = []
    for _ in range(random_.randrange(1, 5)):
        name, size = random_.choice([*COLOURS]), random_.randrange(40, 110)
        x, y = random_.randrange(WIDTH - size), random_.randrange(HEIGHT - size)
        ends = (x, y, x + size, y + size)
        if name == "circle":
            pen.ellipse(ends, fill=COLOURS[name])
        elif name == "square":
            pen.rectangle(ends, fill=COLOURS[name])
        else:
            corners = [(x, y + size), (x + size, y + size), (x + size // 2, y)]
            pen.polygon(corners, fill=COLOURS[name])
        boxes.append((name, *ends))
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=88)
    return out.getvalue(), boxes


def example(picture: bytes, boxes: list[Box]) -> bytes:
    """Return an Example with the names of the TF Object Detection API."""
    message = Example()
    features = message.features.feature
    features["image/encoded"].bytes_list.value.append(picture)
    features["image/format"].bytes_list.value.append(b"jpeg")
    features["image/height"].int64_list.value.append(HEIGHT)
    features["image/width"].int64_list.value.append(WIDTH)
    names = [*COLOURS]
    for name, *ends in boxes:
        features["image/object/class/text"].bytes_list.value.append(name.encode())
        features["image/object/class/label"].int64_list.value.append(names.index(name) + 1)
        for end, value in zip(("xmin", "ymin", "xmax", "ymax"), ends, strict=True):
            share = value / (WIDTH if end[0] == "x" else HEIGHT)
            features[f"image/object/bbox/{end}"].float_list.value.append(share)
    return message.SerializeToString()


def make(folder: Path) -> None:
    """Write shapes.ffr, in which two files are damaged, train.tfrecord and validation.tfrecord."""
    random_ = random.Random(7)
    for split, count in (("train", 240), ("validation", 80)):
        with TFRecordWriter(str(folder / f"{split}.tfrecord")) as writer:
            for number in range(count):
                picture, boxes = draw(random_)
                writer.write(example(picture, boxes))
                file = folder / "data" / split / boxes[0][0] / f"{number:05}.jpg"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(picture)
    (folder / "data" / "README.md").write_text("# Shapes\n\nCircles, squares and triangles.\n")
    ffrfs.pack_folder(folder / "data", folder / "shapes.ffr")
    size = (folder / "shapes.ffr").stat().st_size
    with (folder / "shapes.ffr").open("r+b") as pack:
        for share in (0.3, 0.8):
            pack.seek(int(size * share))
            pack.write(b"damage")


@contextmanager
def served(data: str) -> Iterator[str]:
    """Serve one of the sources, and yield its link."""
    if data == "examples":
        with ffrfs.view("train.tfrecord", second="validation.tfrecord") as view:
            yield view.url
    elif data == "files":
        with ffrfs.view("shapes.ffr") as view:
            yield view.url
    else:
        with ffrfs.mounted("shapes.ffr") as mountpoint, ffrfs.view(mountpoint) as view:
            reader = subprocess.Popen([sys.executable, "-c", _READER, mountpoint])
            try:
                yield view.url
            finally:
                reader.kill()
                reader.wait()


def take(browser: Browser, link: str, shot: Shot, file: Path) -> None:
    context = browser.new_context(
        viewport={"width": 1200, "height": 760},
        color_scheme="dark" if shot.is_dark else "light",
    )
    page = context.new_page()
    page.goto(link)
    root = link.partition("/?")[0]
    page.goto(root + shot.path)
    if shot.path == "/health":
        page.get_by_text("Check all records").click()
    page.locator(shot.wait).first.wait_for()
    page.wait_for_timeout(12_000 if shot.data == "mount" else 1000)
    with Image.open(io.BytesIO(page.screenshot())) as picture:
        picture.convert("RGB").quantize(200).save(file, optimize=True)
    context.close()


def main(names: list[str]) -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place)
        make(folder)
        os.chdir(folder)  # so that titles show no path of this machine
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox"] if os.geteuid() == 0 else [],
        )
        for data in ("examples", "files", "mount"):
            shots = {name: shot for name, shot in SHOTS.items() if shot.data == data}
            shots = {name: shot for name, shot in shots.items() if not names or name in names}
            if shots:
                with served(data) as link:
                    for name, shot in shots.items():
                        take(browser, link, shot, PICTURES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
