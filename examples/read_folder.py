"""Reads every file of a folder, as a training program would; it does not know ffrfs.

    python read_folder.py FOLDER

It reads images through OpenCV, arrays through NumPy, other files as bytes. Prints JSON: for
every file, a hash of the pixels, numbers or bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys

import cv2
import numpy as np


def content(path: str) -> bytes:
    """Return the content of the file, as its reader decodes it."""
    match os.path.splitext(path)[1]:
        case ".png" | ".jpg":
            image = cv2.imread(path)
            if image is None:
                raise OSError(f"cv2.imread({path!r}) found no image")
            return str(image.shape).encode() + image.tobytes()
        case ".npy":
            array = np.load(path)
            return str((array.shape, array.dtype)).encode() + array.tobytes()
        case ".npz":
            with np.load(path) as arrays:
                return b"".join(name.encode() + arrays[name].tobytes() for name in arrays)
        case _:
            with open(path, "rb") as file:
                return file.read()


def main(folder: str) -> None:
    hashes = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            hashes[os.path.relpath(path, folder)] = hashlib.sha256(content(path)).hexdigest()
    json.dump(hashes, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
