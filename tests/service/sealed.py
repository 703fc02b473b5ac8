"""Files as another version of install-units would have left them."""

from __future__ import annotations

import re
from pathlib import Path

from ffrfs.service.owned_file import OwnedFile

_SEAL = re.compile(r"[^\n]* written by ffrfs install-units[^\n]*\n\Z")


def write(path: Path, text: str) -> None:
    """Write `text`, which may have the seal of a file of ours, with a seal that fits it."""
    path.write_bytes(OwnedFile(str(path), _SEAL.sub("", text)).content)
