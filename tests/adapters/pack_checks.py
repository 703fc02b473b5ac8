"""Checks of packs as a data set that are the same for each library that reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ffrfs
from ffrfs.errors import ChecksumError, FormatError, OptionError
from tests.adapters.other_process import Run
from tests.checkout import CHECKOUT
from tests.folder.cut_samples import Sample
from tests.interpreter import python
from tests.remote.servers.nginx import nginx

PAGE = CHECKOUT / "docs" / "cluster.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def named(error: Exception, path: str) -> bytes:
    """Replace a damaged file by its path (a function for on_error)."""
    assert isinstance(error, ChecksumError)
    return path.encode()


@contextmanager
def at_a_url(sample: Sample) -> Iterator[str]:
    folder = Path(str(sample.packs))
    with nginx(folder.parent) as server:
        yield f"{server.url}/{folder.name}/"


def check_wrong(run: Run, sample: Sample, folder: Path) -> None:
    """A wrong option, path or file raises an error at once."""
    with pytest.raises(OptionError, match="on_error"):
        run("look", sample.packs, on_error="ignore")
    with pytest.raises(FileNotFoundError):
        run("look", str(folder / "none.ffr"))
    (folder / "x.ffr").write_bytes(b"no pack at all")
    with pytest.raises(FormatError) as caught:
        run("look", str(folder / "x.ffr"))
    assert caught.value.file == str(folder / "x.ffr")


def check_page(run: Run, module: str, folder: Path) -> None:
    """The code in docs/cluster.md runs."""
    (folder / "photos").mkdir()
    (folder / "photos" / "1.jpg").write_bytes(b"one")
    ffrfs.pack_folder(folder / "photos", folder / "photos.ffr")
    [code] = [block for block in CODE.findall(PAGE.read_text("utf-8")) if module in block]
    assert run("numbers_after", code, str(folder)) == {"total": 3}


def check_loading(loaded: set[str], module: str, said: str) -> None:
    """`import ffrfs` does not load the library. Where it is missing, the error is `said`."""
    program = f"import sys, ffrfs; print(*{loaded} & {{*sys.modules}})"
    assert python("-c", program, check=True, cwd=CHECKOUT).stdout.strip() == ""
    program = (
        f"import sys; sys.modules[{module.removeprefix('ffrfs.')!r}] = None\n"
        f"try: import {module}\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    assert python("-c", program, check=True, cwd=CHECKOUT).stdout.strip() == said
