"""Decoders: arrays with a plot or a picture, tables of tensors and of Parquet, headers of pictures.

They run in the sandbox. Nothing is unpickled, and no claim of a header is believed: only the bytes
that are shown are read, and the limits of the sandbox end a file that needs too much.
"""

from __future__ import annotations

import base64
import io
import json
import math
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy_format
from PIL import ExifTags, Image

from ffrfs.errors import MissingPackageError
from ffrfs.view.plain import CELL_SIZE, COLUMNS_MAX, CUT, ROWS_MAX

_HEADER_SIZE = 16 << 10
_DATA_SIZE_MAX = 64 << 20  # bytes of an array that are read
_SIDE_MAX = 512  # pixels
_POINTS_MAX = 1024
_VALUES_MAX = 100
_TENSORS_MAX = 1000
_TEXT_SIZE = 200  # characters of a value
_TENSORS_SIZE_MAX = 4 << 20
_CHANNELS = {3, 4}
_TAGS_MAX = 300
_EXIF_BLOCKS = {ExifTags.IFD.Exif: ExifTags.TAGS, ExifTags.IFD.GPSInfo: ExifTags.GPSTAGS}


class _Header(NamedTuple):
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    offset: int  # of the values

    @property
    def facts(self) -> list[list[str]]:
        return [
            ["Shape", " by ".join(f"{side:,}" for side in self.shape) or "a single value"],
            ["Type", str(self.dtype)[:_TEXT_SIZE]],
        ]


def _header(begin: bytes) -> _Header:
    stream = io.BytesIO(begin)
    version = npy_format.read_magic(stream)
    # Version 3.0 differs from 2.0 in the encoding of field names alone.
    read = npy_format.read_array_header_1_0 if version[0] == 1 else npy_format.read_array_header_2_0
    shape, is_fortran, dtype = read(stream)
    if any(side < 0 for side in shape):
        raise ValueError("a side is negative")
    return _Header(shape, is_fortran, dtype, stream.tell())


def npy(file: BinaryIO) -> dict[str, Any]:
    begin = file.read(_HEADER_SIZE)
    header = _header(begin)
    shape, is_fortran, dtype, offset = header
    if dtype.hasobject:
        return {"facts": header.facts, "note": "It has Python objects, which are not read."}
    if not dtype.itemsize or 0 in shape:
        return {"facts": header.facts, "note": "It has no values."}
    claimed = math.prod(shape)
    count = min(claimed, _DATA_SIZE_MAX // dtype.itemsize)
    missing = count * dtype.itemsize - (len(begin) - offset)
    data = begin[offset:] + (file.read(missing) if missing > 0 else b"")
    flat = np.frombuffer(data, dtype, min(count, len(data) // dtype.itemsize))
    note = None if count else "Its values are too large to be shown."
    if len(flat) < count:
        note = f"It is cut: it has {len(flat):,} of {claimed:,} values."
    elif 0 < count < claimed:
        note = f"Only the first {count:,} values are shown."
    facts = header.facts + _figures(flat)
    return {"facts": facts, "note": note} | _shown(flat, shape, is_fortran)


def _figures(flat: np.ndarray[Any, Any]) -> list[list[str]]:
    if flat.dtype.kind not in "buif" or not len(flat):
        return []
    with np.errstate(all="ignore"):
        finite = flat[np.isfinite(flat)] if flat.dtype.kind == "f" else flat
        if not len(finite):
            return [["Values", "none is finite"]]
        mean = float(np.mean(finite, dtype=np.float64))
    figures = [
        ["Least", f"{finite.min().item():.9g}"],
        ["Mean", f"{mean:.9g}"],
        ["Greatest", f"{finite.max().item():.9g}"],
    ]
    lost = len(flat) - len(finite)
    return [*figures, ["Not finite", f"{lost:,}"]] if lost else figures


def _shown(flat: np.ndarray[Any, Any], shape: tuple[int, ...], is_fortran: bool) -> dict[str, Any]:
    """Return a table, line or picture, and the first values as text."""
    if flat.dtype.names:
        columns = flat.dtype.names[:_VALUES_MAX]
        rows = [[str(row[name])[:_TEXT_SIZE] for name in columns] for row in flat[:_VALUES_MAX]]
        return {"table": {"columns": list(columns), "rows": rows}}
    found: dict[str, Any] = {
        "text": "  ".join(str(value)[:_TEXT_SIZE] for value in flat[:_VALUES_MAX])
    }
    if flat.dtype.kind == "c":
        flat = np.abs(flat)
    sides = [side for side in shape if side != 1]
    if flat.dtype.kind not in "buif" or not len(flat):
        return found
    if len(sides) <= 1:
        return found | {"line": _line(flat)}
    image = _image(flat, sides, is_fortran)
    return found if image is None else found | {"image": _png(image)}


def _line(flat: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return points between 0 and 512 by 200: the least and greatest value of each part."""
    if len(flat) > _POINTS_MAX:
        parts = np.array_split(flat, _POINTS_MAX // 2)
        ends = [float(end(part)) for part in parts for end in (np.fmin.reduce, np.fmax.reduce)]
    else:
        ends = [float(value) for value in flat]
    shown = {index: end for index, end in enumerate(ends) if math.isfinite(end)} or {0: 0.0}
    low, high = min(shown.values()), max(shown.values())
    scale = max(-low, high) or 1.0  # so that no difference is infinite
    span = high / scale - low / scale or 1.0
    points = " ".join(
        f"{index / len(ends) * 512:.1f},{196 - (end / scale - low / scale) / span * 192:.1f}"
        for index, end in shown.items()
    )
    return {"points": points, "low": f"{low:.6g}", "high": f"{high:.6g}", "count": len(flat)}


def _image(
    flat: np.ndarray[Any, Any], sides: list[int], is_fortran: bool
) -> np.ndarray[Any, Any] | None:
    """Return height by width (by channels), thinned: of more dimensions the first picture."""
    if is_fortran:
        sides = sides[::-1]
    while len(sides) > 3 or (len(sides) == 3 and not {sides[0], sides[2]} & _CHANNELS):
        sides = sides[1:]
    row_size = math.prod(sides[1:])
    rows = min(sides[0], len(flat) // row_size)
    if not rows:
        return None
    image = flat[: rows * row_size].reshape(rows, *sides[1:])
    if is_fortran:
        image = image.T
    if image.ndim == 3 and image.shape[2] not in _CHANNELS:
        image = np.moveaxis(image, 0, -1)
    steps = [-(-side // _SIDE_MAX) for side in image.shape[:2]]
    return image[:: steps[0], :: steps[1]]


def _png(image: np.ndarray[Any, Any]) -> str:
    if image.dtype != np.uint8:
        values = np.nan_to_num(image.astype(np.float64), nan=0, posinf=0, neginf=0)
        values /= np.abs(values).max() or 1  # so that no difference is infinite
        values -= values.min()
        image = (values / (values.max() or 1) * 255).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(stream, "PNG")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()


def npz(file: BinaryIO, array: str = "") -> dict[str, Any]:
    """Return a table of the arrays, and one of them as npy() does: `array`, or the first."""
    with zipfile.ZipFile(file) as archive:
        names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
        rows = []
        for name in names[:_VALUES_MAX]:
            with archive.open(f"{name}.npy") as member:
                header = _header(member.read(_HEADER_SIZE))
            rows.append([name[:_TEXT_SIZE], *(text for _, text in header.facts)])
        more = f"Only the first {_VALUES_MAX} arrays are listed." if names[_VALUES_MAX:] else ""
        found: dict[str, Any] = {}
        if names:
            wanted = array if array in names else names[0]
            with archive.open(f"{wanted}.npy") as member:
                found = npy(member)  # type: ignore[arg-type]
            found["note"] = f"{more} {found['note'] or ''}".strip() or None
            found["facts"] = [["Array", wanted[:_TEXT_SIZE]], *found["facts"]]
        found["arrays"] = rows
        return found


def safetensors(file: BinaryIO) -> dict[str, Any]:
    """Return a table of the tensors that the header lists; no tensor is read."""
    size = int.from_bytes(file.read(8), "little")
    if size > _TENSORS_SIZE_MAX:
        raise ValueError(f"its header would have {size:,} bytes")
    header = json.loads(file.read(size))
    about = header.pop("__metadata__", None) or {}
    rows = [
        [
            name[:_TEXT_SIZE],
            *(str(tensor.get(key))[:_TEXT_SIZE] for key in ("dtype", "shape", "data_offsets")),
        ]
        for name, tensor in [*header.items()][:_TENSORS_MAX]
    ]
    facts = [[str(name)[:_TEXT_SIZE], str(about[name])[:_TEXT_SIZE]] for name in [*about][:20]]
    is_cut = len(header) > _TENSORS_MAX
    return {
        "facts": [["Tensors", f"{len(header):,}"], *facts],
        "note": f"Only the first {_TENSORS_MAX:,} are listed." if is_cut else None,
        "table": {"columns": ["Tensor", "Type", "Shape", "Bytes"], "rows": rows},
    }


def parquet(file: BinaryIO) -> dict[str, Any]:
    """Return the first rows; the threads of pyarrow are not used."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        need = "a Parquet table needs the package pyarrow"
        raise MissingPackageError.of(need, "parquet") from None
    with pq.ParquetFile(pa.PythonFile(file, mode="r"), buffer_size=1 << 20) as source:
        metadata, names = source.metadata, source.schema_arrow.names
        batches = source.iter_batches(ROWS_MAX, columns=names[:COLUMNS_MAX], use_threads=False)
        first = next(batches, None)
        columns = [] if first is None else [_cells(column) for column in first.columns]
        is_cut = metadata.num_rows > ROWS_MAX or len(names) > COLUMNS_MAX
        return {
            "facts": [
                ["Rows", f"{metadata.num_rows:,}"],
                ["Columns", f"{len(names):,}"],
                ["Row groups", f"{metadata.num_row_groups:,}"],
                ["Written by", str(metadata.created_by)[:CELL_SIZE]],
            ],
            "note": CUT if is_cut else None,
            "table": {
                "columns": [f"{name}"[:CELL_SIZE] for name in names[:COLUMNS_MAX]],
                "rows": [list(row) for row in zip(*columns, strict=True)],
            },
        }


def _cells(column: Iterable[Any]) -> list[str]:
    return ["" if not value.is_valid else str(value.as_py())[:CELL_SIZE] for value in column]


def picture_header(file: BinaryIO) -> dict[str, Any]:
    """Return size, mode and EXIF of a picture; no pixel is decoded."""
    Image.MAX_IMAGE_PIXELS = None  # the page decides, by `width` and `height`
    with warnings.catch_warnings(action="ignore"), Image.open(file) as picture:
        # getexif() of a PNG decodes all of it, to look behind its pixels.
        exif = picture.getexif() if picture.format == "TIFF" else Image.Exif()
        exif.load(picture.info.get("exif", b""))
        tags = _tags({tag: exif[tag] for tag in exif if tag not in _EXIF_BLOCKS}, ExifTags.TAGS)
        for block, names in _EXIF_BLOCKS.items():
            tags += _tags(exif.get_ifd(block), names)
        width, height = picture.size
        return {
            "width": width,
            "height": height,
            "facts": [
                ["Format", f"{picture.format}, {picture.mode}"],
                ["Pixels", f"{width:,} by {height:,}"],
            ],
            "exif": tags[:_TAGS_MAX],
        }


def _tags(found: Mapping[int, object], names: Mapping[int, str]) -> list[list[str]]:
    return [[names.get(tag, f"{tag:#06x}"), _tag_text(value)] for tag, value in found.items()]


def _tag_text(value: object) -> str:
    if isinstance(value, bytes):
        value = value[:_TEXT_SIZE].decode("latin-1")
    return str(value)[:_TEXT_SIZE].strip("\0 ")
