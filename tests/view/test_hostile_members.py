"""Members that were made to harm: their pages are bounded in time and memory, and run nothing."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import re
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ffrfs.errors import RemoteTimeoutError, TooLargeError
from ffrfs.view import child, item, sandbox
from ffrfs.view.safe_bytes import Content
from tests.ffrecord_file import flip_byte, record_extents, write_folder
from tests.index_file import Index, indexed_pack
from tests.mount.waiting import of_threads
from tests.view.conftest import Serve

MEMORY_MAX = 64 << 20  # memory that this process takes for one page
CPU_MAX_S = 3.0  # CPU time of this process: load on the machine does not count
SCRIPT = "<script>alert(1)</script>"
VIOLENT = (
    "<script>alert(1)<script>",
    "<img src=x onerror=alert(1)>",
    "' onclick='alert(1)",
    '" onclick="alert(1)',
    "javascript:alert(1)",
    "{{ 1234*5678 }}",
    "a\r\nSet-Cookie: x=1\r\n\r\n",
    "a\nb",
    "\u202egnp.exe",
    "%2e%2e%2fetc%2fpasswd",
    "..\\..\\x",
    "a;filename=x.html",
)


def memory(field: str) -> int:
    """Return bytes of this process, the server: VmRSS is now, VmHWM the peak since forget()."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def forget() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def check_inert(text: str) -> None:
    """Assert that no markup of a member or of a name is markup of the page."""
    for begin in ("<script>", "<img src=x", "<svg on", " onclick='", ' onclick="', "7006652"):
        assert begin not in text, begin


@pytest.mark.parametrize("name", VIOLENT)
def test_hostile_names_are_shown_as_text(tmp_path: Path, serve: Serve, name: str) -> None:
    pages = serve(write_folder(tmp_path / "x.ffr", {name: {name: b"text"}}))
    key = f"{name}/{name}"
    answer = pages.get("/item", key=key)
    assert answer.status == 200
    check_inert(answer.text)
    assert pages.data("/item", key=key)["item"]["key"] == key
    served = pages.get("/bytes", key=key)
    assert served.body == b"text"
    assert served.headers["set-cookie"] is None
    assert re.fullmatch(
        r"attachment; filename\*=UTF-8''[\w.%~-]+", served.headers["content-disposition"]
    )


def test_a_path_with_dot_dot_is_not_found(tmp_path: Path, serve: Serve) -> None:
    """No writer puts the name ".." into an index, and the core shows no such name either."""

    def spoil(index: Index) -> None:
        index.names = index.names.replace(b"up", b"..")

    (tmp_path / "secret").write_bytes(b"secret")
    pack = tmp_path / "d" / "x.ffr"
    pack.parent.mkdir()
    pack.write_bytes(indexed_pack({b"up": {b"secret": b"packed"}}, spoil))
    pages = serve(pack)
    for key in ("../secret", "../../secret", "/../secret", "..%2fsecret"):
        answer = pages.get("/bytes", key=key)
        assert answer.body != b"secret"
        assert answer.status in (404, 500)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.svg", f'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)">{SCRIPT}</svg>'),
        ("a.html", SCRIPT),
        ("a.xhtml", f'<html xmlns="http://www.w3.org/1999/xhtml">{SCRIPT}</html>'),
        ("a.xml", '<?xml-stylesheet href="javascript:alert(1)"?><a/>'),
        ("a.js", "alert(1)"),
        ("a.css", "@import 'javascript:alert(1)'"),
        ("a.json", json.dumps({SCRIPT: SCRIPT})),
        ("a.csv", f"{SCRIPT},=cmd|' /C calc'!A0\n{SCRIPT},1\n"),
        ("a.txt", SCRIPT + "{{ 1234*5678 }}"),
        ("a.jpg", "\xff\xd8\xff" + SCRIPT),
        ("a.png", SCRIPT),
        ("a.gif", "GIF89a/*" + SCRIPT),
        ("a.pdf", "%PDF-1.7 /JS (app.alert(1))"),
    ],
)
def test_active_content_is_shown_inert(tmp_path: Path, serve: Serve, name: str, data: str) -> None:
    pages = serve(write_folder(tmp_path / "x.ffr", {name: data.encode("latin-1")}))
    answer = pages.get("/item", key=name)
    assert answer.status == 200
    check_inert(answer.text)


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000)))


def npy_header(text: str, version: bytes = b"\1\0") -> bytes:
    size = struct.pack("<H" if version == b"\1\0" else "<I", len(text))
    return b"\x93NUMPY" + version + size + text.encode()


def npy_of(shape: str, descr: str = "'<f8'") -> bytes:
    return npy_header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n")


def npz_bomb(member: bytes, zeros: int) -> bytes:
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w", force_zip64=True) as file,
    ):
        file.write(member)
        for _ in range(zeros >> 20):
            file.write(bytes(1 << 20))
    return stream.getvalue()


def parquet(spoil: Callable[[bytes], bytes] = bytes) -> bytes:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    pq.write_table(pa.table({"a": range(1000)}), stream, compression="none", use_dictionary=False)
    return spoil(stream.getvalue())


def parquet_bomb(value_size: int = 160 << 20) -> bytes:
    """Return a table of 100 rows of zeros, a thousandth of the size of one row."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    indices = pa.array(np.zeros(100, np.int32))
    column = pa.DictionaryArray.from_arrays(indices, pa.array([bytes(value_size)]))
    pq.write_table(pa.table({"a": column}), stream, compression="zstd")
    return stream.getvalue()


def parquet_lie(data: bytes) -> bytes:
    """Return the Parquet file with a wrong size of its metadata in the footer."""
    return data[:-8] + struct.pack("<I", 0x7FFFFFFF) + data[-4:]


def tensors(header: bytes, size: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if size is None else size) + header


HOSTILE: dict[str, Callable[[], bytes]] = {
    "bomb.png": lambda: png_header(60_000, 60_000),
    "bomb.bmp": lambda: (
        b"BM" + struct.pack("<IIIIiiHHIIiiII", 0, 0, 54, 40, 2**31 - 1, 2**31 - 1, 1, 24, *[0] * 6)
    ),
    "huge.npy": lambda: npy_of("(1000000000000,)"),
    "huger.npy": lambda: npy_of(f"({10**30}, {10**30})"),
    "negative.npy": lambda: npy_of("(-5, -7)"),
    "item.npy": lambda: npy_of("(5,)", "'V2000000000'"),
    "strings.npy": lambda: npy_of("(9,)", "'<U500000000'"),
    "deep.npy": lambda: npy_header("(" * 9000 + ")" * 9000),
    "minus.npy": lambda: npy_header("-" * 9000 + "1"),
    "power.npy": lambda: npy_of("(10**10**10,)"),
    "code.npy": lambda: npy_of("__import__('os').system('touch /tmp/pwned')"),
    "fields.npy": lambda: npy_of("(2,)", str([(f"f{n}", "<f8", (1000, 1000)) for n in range(200)])),
    "header.npy": lambda: b"\x93NUMPY\2\0\xff\xff\xff\xff{",
    "rows.npy": lambda: npy_of("(1, 1000000000000)"),
    "infinite.npy": lambda: (
        npy_of("(4,)") + struct.pack("<4d", 1e308, -1e308, 1e-320, float("inf"))
    ),
    "bomb.npz": lambda: npz_bomb(npy_of("(100000000000,)"), 128 << 20),
    "header.npz": lambda: npz_bomb(b"\x93NUMPY\2\0\xff\xff\xff\xff{", 8 << 20),
    "lie.npz": lambda: npz_bomb(npy_of("(3,)"), 0)[:-10] + struct.pack("<IIH", 1 << 31, 0, 0),
    "deep.json": lambda: b"[" * 100_000,
    "deeper.json": lambda: b"[" * 900 + b"0," * 200_000 + b"0" + b"]" * 900,
    "number.json": lambda: b"9" * 900_000,
    "line.txt": lambda: b"a" * 100_000_000,
    "line.csv": lambda: b"a" * 100_000_000,
    "commas.csv": lambda: b"," * 5_000_000,
    "quote.csv": lambda: b'"' + b"\n" * 5_000_000,
    "line.json": lambda: b'"' + b"a" * 40_000_000 + b'"',
    "lie.parquet": lambda: parquet(parquet_lie),
    "zeros.parquet": lambda: parquet(lambda data: data[:4] + bytes(len(data) - 8) + data[-4:]),
    "noise.parquet": lambda: parquet(
        lambda data: data[:5000] + b"\xff" * (len(data) - 5008) + data[-8:]
    ),
    "bomb.parquet": parquet_bomb,
    "size.safetensors": lambda: tensors(b"{}", 1 << 60),
    "deep.safetensors": lambda: tensors(b"[" * 100_000),
    "lists.safetensors": lambda: tensors(b'{"a":[' + b"[]," * 5_000_000 + b"[]]}"),
    "odd.safetensors": lambda: tensors(b'{"__metadata__":[1],"a":5}'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_pages_are_bounded(tmp_path: Path, serve: Serve, name: str) -> None:
    pages = serve(write_folder(tmp_path / "x.ffr", {name: HOSTILE[name]()}))
    pages.get("/item", key=name, **{"as": "hex"})
    forget()
    before, begin_s = memory("VmRSS"), time.process_time()
    answer = pages.get("/item", key=name)
    assert answer.status == 200
    assert len(answer.body) < 4 << 20
    assert time.process_time() - begin_s < CPU_MAX_S
    assert memory("VmHWM") - before < MEMORY_MAX
    assert 'src="/bytes' not in answer.text  # the browser would decode the bomb
    assert pages.get("/").status == 200


def test_a_download_takes_little_memory(tmp_path: Path, serve: Serve) -> None:
    pages = serve(write_folder(tmp_path / "x.ffr", {"a": bytes(100_000_000)}))
    connection = http.client.HTTPConnection(pages.host, pages.port, timeout=60)
    connection.request("GET", "/bytes?key=a", headers={"Cookie": pages.cookie})
    response = connection.getresponse()
    forget()
    before = memory("VmRSS")
    assert sum(len(piece) for piece in iter(lambda: response.read(1 << 20), b"")) == 100_000_000
    assert memory("VmHWM") - before < MEMORY_MAX
    connection.close()


def content(data: bytes, seen: Callable[[], None] = lambda: None) -> Content:
    def read(offset: int, size: int) -> bytes:
        seen()
        return data[offset : offset + size]

    return Content("a", len(data), read)


def test_a_decoder_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_DEADLINE_S", 2)
    with pytest.raises(TooLargeError, match="too much memory or time"):
        sandbox.run("parquet", content(parquet_bomb(32 << 20)))


def test_a_decoder_that_reads_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_READ_SIZE_MAX", 1 << 20)
    with pytest.raises(TooLargeError, match="too much memory or time"):
        sandbox.run("npy", content(npy_of("(1000000,)") + bytes(8_000_000)))


def test_a_read_error_is_not_reported_as_a_decoder_error() -> None:
    def fail() -> None:
        raise RemoteTimeoutError("no answer")

    with pytest.raises(RemoteTimeoutError, match="no answer"):
        sandbox.run("npy", content(npy_of("(1,)"), fail))


def test_a_decoder_process_that_fails_to_start_gives_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child, "_PROGRAM", "import sys; sys.exit(3)")
    sandbox.end_ahead()
    with pytest.raises(TooLargeError, match=r"process that decodes has ended \(status 3\)"):
        sandbox.run("npy", content(npy_of("(1,)") + bytes(8)))
    sandbox.end_ahead()


def test_the_decoder_process_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nothing")  # Python may need it
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    found: dict[str, str] = {}

    def look() -> None:
        for pid in " ".join(of_threads(os.getpid(), "children")).split():
            with contextlib.suppress(OSError):  # the process has ended
                if "view.sandbox" in Path(f"/proc/{pid}/cmdline").read_text():
                    limits = Path(f"/proc/{pid}/limits").read_text()
                    found.update(re.findall(r"^Max (.+?)  +(\S+)", limits, re.MULTILINE))
                    found["variables"] = Path(f"/proc/{pid}/environ").read_text()

    sandbox.end_ahead()  # so that only one child runs
    sandbox.run("npy", content(npy_of("(1,)") + bytes(8), look))
    assert found["address space"] == str(1 << 30)
    assert found["cpu time"] == "5"
    assert found["file size"] == found["core file size"] == "0"
    variables = found["variables"].split("\0")
    assert "LD_LIBRARY_PATH=/nothing" in variables
    # Other variables may hold credentials.
    assert not [one for one in variables if one.startswith(("PATH=", "AWS_"))]


def test_damage_found_by_a_decoder(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is too large to be verified as a whole, but its decoder reads the damaged part."""
    monkeypatch.setattr(item, "_VERIFIED_SIZE_MAX", 8 << 20)
    data = npy_of("(10000000,)", "'u1'") + bytes(10_000_000)
    pack = tmp_path / "x.ffr"
    pack.write_bytes(indexed_pack({b"a.npy": data}))
    pages = serve(pack)
    assert pages.data("/item", key="a.npy")["state"] == "part"
    flip_byte(pack, record_extents(pack)[0][0] + 9_000_000)
    found = pages.data("/item", key="a.npy")
    assert (found["state"], found["view"]) == ("damaged", None)
    assert "a.npy" in found["damage"]
    assert pages.data("/item", key="a.npy", **{"as": "hex"})["state"] == "part"
