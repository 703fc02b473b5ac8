"""Makes a small data set: drawn pictures, arrays, text, an empty file, an empty folder."""

from __future__ import annotations

import os

import cv2
import numpy as np
from numpy.typing import NDArray

CLASSES = ("circle", "square", "line")
PICTURES = 60  # of each class and kind
SIDE = 200  # pixels


def make(folder: str) -> None:
    random = np.random.default_rng(7)
    labels = ["path,class"]
    for kind in CLASSES:
        for suffix in ("png", "jpg"):
            os.makedirs(os.path.join(folder, "images", suffix, kind))
            for index in range(PICTURES):
                name = f"images/{suffix}/{kind}/{index:03d}.{suffix}"
                if not cv2.imwrite(os.path.join(folder, name), draw(kind, random)):
                    raise OSError(f"cv2.imwrite could not write {name}")
                labels.append(f"{name},{kind}")
    os.mkdir(os.path.join(folder, "arrays"))
    for index in range(PICTURES):
        array = random.normal(size=(64, 64)).astype(np.float32)
        np.save(os.path.join(folder, "arrays", f"{index:03d}.npy"), array)
    np.savez(os.path.join(folder, "arrays", "both.npz"), x=np.arange(1000), y=np.eye(9))
    write_text(folder, "labels.csv", "\n".join(labels) + "\n")
    write_text(folder, "ein Gruß.txt", "Names may be in any script: 日本語, русский.\n")
    write_text(folder, "empty.txt", "")
    os.mkdir(os.path.join(folder, "empty folder"))


def draw(kind: str, random: np.random.Generator) -> NDArray[np.uint8]:
    """Return a figure on a noisy ground, so that the file is as large as that of a photo."""
    picture = random.integers(0, 90, size=(SIDE, SIDE, 3), dtype=np.uint8)
    x, y, size = (int(number) for number in random.integers(60, 120, size=3))
    colour = tuple(int(number) for number in random.integers(100, 255, size=3))
    match kind:
        case "circle":
            cv2.circle(picture, (x, y), size // 2, colour, -1)
        case "square":
            cv2.rectangle(picture, (x // 2, y // 2), (x // 2 + size, y // 2 + size), colour, -1)
        case _:
            cv2.line(picture, (0, y), (SIDE, x), colour, 9)
    return picture


def write_text(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
