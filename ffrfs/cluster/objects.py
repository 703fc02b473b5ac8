"""Objects of a bucket as files to pack: each is read only if it is the one that was listed.

Not here: listing them (listing.py), requests (ffrfs.remote). Concurrency: any thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ffrfs._native import EntryList, Writer
from ffrfs.cluster.piece import Piece
from ffrfs.errors import PackError
from ffrfs.remote.bucket import whole_objects
from ffrfs.remote.pin import Pin
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import parse_url


def append_objects(writer: Writer, pieces: Iterable[Piece], listed: EntryList, root: str) -> None:
    """Write the objects of the list, in its order, below the directory `root`.

    Raises PackError, RemoteError, ChangedAtOriginError.
    """
    pins = {path: pin for piece in pieces for path, pin in pins_of(piece, root)}
    paths = [os.fsdecode(path) for path in listed.paths(listed.files(0, listed.record_count))]
    in_order = [pins[path] for path in paths]
    contents = whole_objects(in_order, RemoteSettings.from_environment())
    for pin, content in zip(in_order, contents, strict=True):
        if writer.append_pieces(content) != pin.size:
            raise PackError(f"{pin.url.shown}: changed size while it was packed; plan anew")


def pins_of(piece: Piece, root: str) -> Iterator[tuple[str, Pin]]:
    """Yield paths, with the pins by which an object is the one that was listed."""
    folder = parse_url(f"{root.rstrip('/')}/")
    for number, tag in enumerate(piece.tags):
        path = piece.path(number)
        size, mtime_ns = piece.sizes[number], piece.mtimes_ns[number]
        yield path, Pin(folder.child(path), size, tag or None, None, mtime_ns)
