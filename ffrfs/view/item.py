"""The page of a file: its content, its place in the pack, and whether its bytes match just now.

The first bytes of a file decide its type, and its name if they say too little. Renderers are in
plain.py and, for types that must be decoded, behind sandbox.py; a browser gets bytes by
safe_bytes.py.

Not here: Examples (example.py). Stateless; any thread.
"""

from __future__ import annotations

import os
import shlex
import stat
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ffrfs.errors import (
    ChecksumError,
    FfrfsError,
    FormatError,
    MissingPackageError,
    TooLargeError,
    describe,
)
from ffrfs.files.kind import text_of
from ffrfs.remote.paths import absolute
from ffrfs.remote.url import is_url
from ffrfs.view import plain, sandbox
from ffrfs.view.collection import Facts, FileCollection, Item
from ffrfs.view.example import example_page
from ffrfs.view.page import (
    collection_of,
    crumbs,
    link,
    opened,
    page,
    path_parameter,
    whole_number,
)
from ffrfs.view.safe_bytes import Content, safe_type
from ffrfs.view.thumbnails import is_picture

_VERIFIED_SIZE_MAX = 64 << 20  # a larger file is not read as a whole for its page
_PIECE_SIZE = 4 << 20
_PIXELS_MAX = 100_000_000  # browsers give up at some number, and may take the machine with them
_TABLES = (".csv", ".tsv", ".tab")
_TEXTS = frozenset(
    (".txt", ".md", ".log", ".json", ".jsonl", ".xml", ".html", ".svg", ".yaml", ".yml", ".toml")
)
# (first bytes, extensions or any, name of the type, its decoder)
_DECODED = (
    (b"\x93NUMPY", (), "array", "npy"),
    (b"PK", (".npz",), "array", "npz"),
    (b"PAR1", (), "table", "parquet"),
    (b"", (".safetensors",), "table", "safetensors"),
)
# The parts that a view may have, for the template.
_PARTS = dict.fromkeys(
    ("note", "facts", "source", "arrays", "image", "line", "table", "text", "hex", "exif")
) | {"before": None, "after": None}


def item(request: Request) -> Response:
    collection = collection_of(request)
    if collection.kind == "examples":
        return example_page(request)
    assert isinstance(collection, FileCollection)
    key = path_parameter(request, "key") or ""
    entry = collection.item(key)
    if entry.kind == "folder":
        return RedirectResponse(link("/", folder=key), 303)
    values: dict[str, Any] = {
        "item": entry,
        "crumbs": crumbs(key)[:-1],
        "stored": _stored(collection, key),
    }
    if entry.kind == "link":
        values |= _link(collection, key)
    else:
        values |= _file(request, collection, entry)
    return page(request, "item.html", values)


def _stored(collection: FileCollection, key: str) -> dict[str, str] | None:
    stored = collection.tree.stored(collection.tree.find(key))
    if stored is None:
        return None
    mode, mtime_ns = stored
    modified = datetime.fromtimestamp(mtime_ns // 1_000_000_000, UTC)
    return {
        "permissions": f"{stat.filemode(mode)[1:]} ({mode & 0o7777:o})",
        "modified": f"{modified:%Y-%m-%d %H:%M:%S} UTC",
    }


def _link(collection: FileCollection, key: str) -> dict[str, Any]:
    tree = collection.tree
    found = tree.find(key, follow_links=True)
    return {
        "target": tree.target(tree.find(key)),
        "leads_to": tree.path(found) if found else None,
        **dict.fromkeys(("view", "way", "damage", "previous", "next")),
    }


def _file(request: Request, collection: FileCollection, entry: Item) -> dict[str, Any]:
    facts = collection.facts(entry.key)
    previous, following = collection.neighbours(entry.key)
    content = Content(entry.name, facts.size, lambda at, n: collection.read(entry.key, at, n))
    way = request.query_params.get("as", "")
    state, damage, view = "whole", None, None
    try:
        if facts.size > _VERIFIED_SIZE_MAX or is_url(facts.pack):
            state = "part"
        else:
            _verify(content)
        at = whole_number(request, "at", 0, max(content.size - 1, 0))
        view = _view(content, way, at, request.query_params.get("array", ""))
    except (FfrfsError, OSError) as error:
        is_damage = isinstance(error, ChecksumError | FormatError)
        state, damage = "damaged" if is_damage else "unreadable", describe(error)
    return {
        "facts": facts,
        "state": state,
        "damage": damage,
        "view": view,
        "way": way,
        "previous": previous,
        "next": following,
        "commands": _commands(
            opened(request).sources, collection.tree.volume.is_folder, entry, facts
        ),
    }


def _verify(content: Content) -> None:
    for offset in range(0, max(content.size, 1), _PIECE_SIZE):
        content.read(offset, _PIECE_SIZE)


def _view(content: Content, way: str, at: int, array: str) -> dict[str, Any]:
    """Return the content of the page; in hex if the file cannot be decoded, and why."""
    begin = content.read(0, 4096)
    note = None
    if way not in ("hex", "text"):
        try:
            found = _decoded(content, begin, array)
        except (FormatError, TooLargeError, MissingPackageError) as error:
            found, note = None, describe(error)
        if found is not None:
            return {**_PARTS, "is_decoded": True, **found}
    is_text = way == "text" or (way != "hex" and _is_text(content.name, begin))
    shown = plain.text(content, at) if is_text else plain.hex_dump(content, at)
    kind = "text" if is_text else "hex"
    return {**_PARTS, "kind": kind, "is_decoded": False, "note": note, **shown}


def _is_text(name: str, begin: bytes) -> bool:
    known = os.path.splitext(name)[1].lower() in (*_TEXTS, *_TABLES)
    return text_of(begin) is not None or (known and b"\0" not in begin)


def _decoded(content: Content, begin: bytes, array: str) -> dict[str, Any] | None:
    extension = os.path.splitext(content.name)[1].lower()
    media = safe_type(content.name, begin)
    if media is not None:
        kind = media.partition("/")[0]
        return _picture(content, "bytes") if kind == "image" else {"kind": kind, "media": media}
    if is_picture(begin) and extension not in (*_TEXTS, *_TABLES):  # browsers show no TIFF
        return _picture(content, "thumbnail")
    for magic, extensions, kind, decoder in _DECODED:
        if begin.startswith(magic) and (not extensions or extension in extensions):
            arguments = {"array": array} if decoder == "npz" else {}
            return {"kind": kind, **sandbox.run(decoder, content, **arguments)}
    found = None
    if _is_text(content.name, begin):
        if extension == ".json":
            found = plain.pretty_json(content)
        elif extension in _TABLES:
            found = plain.table(content, extension)
    return found and {"kind": "table" if "table" in found else "json", **found}


def _picture(content: Content, source: str) -> dict[str, Any]:
    found = sandbox.run("picture_header", content)
    if found["width"] * found["height"] > _PIXELS_MAX:
        note = "It has too many pixels for a browser: download it."
        return {"kind": "picture", **found, "source": None, "note": note}
    return {"kind": "picture", **found, "source": source}


def _commands(sources: list[str], is_folder: bool, entry: Item, facts: Facts) -> dict[str, str]:
    """Return the line of Python and of the shell that reads the file, for names of any bytes."""
    places, pack = [*map(absolute, sources)], absolute(facts.pack)
    opened_by = repr(places[0] if len(places) == 1 else places)
    return {
        "python": f"ffrfs.PackedFolder({opened_by})[{entry.key!r}]"
        if is_folder
        else f"ffrfs.FileReader({pack!r}).read_one({facts.record})",
        "shell": " ".join(
            [
                "ffrfs cat",
                *(["--"] if entry.key.startswith("-") else []),
                _word(pack),
                _word(entry.key),
            ]
        ),
    }


def _word(text: str) -> str:
    """Return a word of a shell; bytes that a line of text cannot hold become $'…'."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = (
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b"\\'" else f"\\x{byte:02x}"
        for byte in os.fsencode(text)
    )
    return f"$'{''.join(escaped)}'"


ROUTES = [Route("/item", item)]
