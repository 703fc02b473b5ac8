"""The program of a child process that makes thumbnails: it gets a picture, and sends its thumbnail.

Its argument is how many seconds of CPU time it may take for each picture.

The bytes are hostile, so the process has limits on memory and time; one that exceeds them ends,
and thumbnails.py starts another. Only decoders of common formats are used.
"""

from __future__ import annotations

import io
import resource
import sys
import warnings
from typing import cast

from PIL import Image, ImageOps

from ffrfs.view.child import connection, limit

_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "PPM", "TIFF")
_PIXELS_MAX = 50_000_000
_MEMORY_MAX = 512 << 20  # bytes of address space
_QUALITY = 82


def serve() -> None:
    link, seconds = connection(), int(sys.argv[3])
    warnings.simplefilter("ignore")
    Image.MAX_IMAGE_PIXELS = _PIXELS_MAX
    Image.init()
    limit(_MEMORY_MAX)
    while True:
        try:
            request = link.recv_bytes()
        except (EOFError, OSError):
            return
        _limit_time(seconds)
        try:
            made = shrink(request[2:], int.from_bytes(request[:2], "big"))
        except Exception:  # decoders raise anything for bytes that are no picture
            made = b""
        link.send_bytes(made)


def _limit_time(seconds: int) -> None:
    """Let the kernel end this process if it computes for longer from now on."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(usage.ru_utime + usage.ru_stime) + 1 + seconds
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def shrink(picture: bytes, side: int) -> bytes:
    """Return a JPEG, or a WebP if it has transparency, of at most `side` pixels each way."""
    image = Image.open(io.BytesIO(picture), formats=_FORMATS)
    if image.width * image.height > _PIXELS_MAX:
        raise ValueError("too many pixels")
    # A JPEG is decoded at the smallest of its scales that is enough, in a fraction of the time.
    image.thumbnail((side, side), Image.Resampling.BILINEAR, reducing_gap=1.0)
    shown = ImageOps.exif_transpose(image)
    if shown.mode[0] in "IF":  # depths and the like: from the least to the greatest
        low, high = cast("tuple[float, float]", shown.convert("F").getextrema())
        scale = 255 / ((high - low) or 1)
        shown = shown.convert("F").point(lambda value: value * scale - low * scale).convert("L")
    made = io.BytesIO()
    if shown.has_transparency_data:
        shown.convert("RGBA").save(made, "WEBP", quality=_QUALITY, method=0)
    else:
        shown.convert("RGB").save(made, "JPEG", quality=_QUALITY)
    return made.getvalue()
