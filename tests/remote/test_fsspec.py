"""`ffr://` of packs at URLs, in each way that fsspec names them; ffrfs itself reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ffrfs
from ffrfs.errors import OptionError
from tests.adapters.needed import needed
from tests.remote.reading import reading_urls
from tests.remote.servers.nginx import Nginx

fsspec = needed("fsspec")
needed("ffrfs.fsspec")

DATA = {f"{n % 3}/{n}.bin": os.urandom(n * 50_000) for n in range(20)}


@pytest.fixture(autouse=True)
def pack(web_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, data in DATA.items():
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_bytes(data)
    (web_root / "fsspec").mkdir(exist_ok=True)
    ffrfs.pack_folder(tmp_path / "source", web_root / "fsspec" / "x.ffr", force=True)
    with reading_urls(monkeypatch, tmp_path):
        yield


@pytest.mark.parametrize(
    "options",
    [
        {"fo": "{}/fsspec/x.ffr"},
        {"fo": "{}/fsspec/x.ffr", "target_protocol": "http", "target_options": {}},
        {"fo": "s3://fsspec/x.ffr", "target_options": {"anon": True, "endpoint_url": "{}"}},
        {
            "fo": "fsspec/x.ffr",
            "target_protocol": "s3",
            "target_options": {"anon": True, "client_kwargs": {"endpoint_url": "{}"}},
        },
    ],
    ids=["url", "http", "s3 url", "s3"],
)
def test_a_pack_at_a_url(web: Nginx, options: dict[str, Any]) -> None:
    fs = fsspec.filesystem("ffr", skip_instance_cache=True, **placed(options, web.url))
    assert fs.find("") == sorted(DATA)
    assert fs.cat("", recursive=True) == DATA
    count = len(web.requests())
    assert fs.cat_file("1/19.bin", 7, -7) == DATA["1/19.bin"][7:-7]
    assert len(web.requests()) == count  # the whole pack is in the cache


def placed(options: Any, url: str) -> Any:
    if isinstance(options, dict):
        return {name: placed(value, url) for name, value in options.items()}
    return options.replace("{}", url) if isinstance(options, str) else options


def test_a_chained_url(web: Nginx) -> None:
    needed("aiohttp")  # fsspec parses http:// with it
    with fsspec.open(f"ffr://1/19.bin::{web.url}/fsspec/x.ffr") as file:
        assert file.read() == DATA["1/19.bin"]


def test_options_that_are_not_of_a_store(web: Nginx) -> None:
    for options in ({"fo": f"{web.url}/fsspec/x.ffr"}, {"fo": "s3://fsspec/x.ffr"}):
        with pytest.raises(OptionError):
            fsspec.filesystem("ffr", target_options={"secret": "x"}, **options)


def test_the_query_of_a_url_is_shown_nowhere(web: Nginx) -> None:
    fs = fsspec.filesystem("ffr", fo=f"{web.url}/fsspec/x.ffr?k=hush", skip_instance_cache=True)
    for call in (fs.open, fs.ls, fs.info):
        with pytest.raises(FileNotFoundError) as failed:
            call("none")
        assert str(failed.value).startswith(f"{web.url}/fsspec/x.ffr")
        assert "hush" not in str(failed.value)
