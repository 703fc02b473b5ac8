"""--prefetch-window and --prefetch-ttl: accepted values, and the worker's options from them."""

from __future__ import annotations

from typing import Any

import pytest

from ffrfs.errors import OptionError
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.kernel.options import TreeOptions
from tests.mount.config.asked import request_of


def asked(*arguments: str) -> MountRequest:
    return request_of(*arguments, "x.ffr", "/mnt/x")


def test_defaults() -> None:
    request = asked()
    assert (request.prefetch_records, request.prefetch_bytes) == (512, 64 << 20)
    assert request.prefetch_ttl_s == 60


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("100", (100, 64 << 20)),
        ("0", (0, 64 << 20)),
        ("7,1", (7, 1)),
        ("512,64M", (512, 64 << 20)),
        ("00010,8K", (10, 8 << 10)),
        ("1000000,3G", (1_000_000, 3 << 30)),
        ("1,2T", (1, 2 << 40)),
        ("1,2m", (1, 2 << 20)),
    ],
)
def test_windows(text: str, window: tuple[int, int]) -> None:
    request = asked(f"--prefetch-window={text}")
    assert (request.prefetch_records, request.prefetch_bytes) == window


WRONG_WINDOWS = [
    *("", "-1", "+1", "1.5", "many", "64M", " 1", "1 ", "\u0661", "1" * 19, ",", ",1M", "1,"),
    *("1,0", "1,0K", "1,-1", "1,M", "1,1MB", "1,1.5G", "1,1P", "1, 1", "1,\u0661", "1,1,1"),
    *("1,99999999999999999T", "1,9999999999999999999"),
]


@pytest.mark.parametrize("text", WRONG_WINDOWS)
def test_wrong_windows(text: str) -> None:
    with pytest.raises(OptionError, match=r"^--prefetch-window.* 512,64M$"):
        asked(f"--prefetch-window={text}")


@pytest.mark.parametrize(("text", "ttl_s"), [("0.5", 0.5), ("3600", 3600.0), ("1e9", 1e9)])
def test_times(text: str, ttl_s: float) -> None:
    assert asked("--prefetch-ttl", text).prefetch_ttl_s == ttl_s


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e10", "soon"])
def test_wrong_times(text: str) -> None:
    with pytest.raises(OptionError, match=r"^--prefetch-ttl"):
        asked(f"--prefetch-ttl={text}")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (512, 64 << 20, 60_000)),
        ({"prefetch_records": 0, "prefetch_bytes": 1, "prefetch_ttl_s": 0.0001}, (0, 1, 1)),
    ],
)
def test_engines_get_the_prefetch_options(
    fields: dict[str, Any], expected: tuple[int, ...]
) -> None:
    request = MountRequest(packs=("x",), mountpoint="/mnt/x", options=TreeOptions(), **fields)
    options = request.volume_options()
    found = [options[f"prefetch_{name}"] for name in ("records", "bytes", "ttl_ms")]
    assert tuple(found) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), None),
        (("--cache-dir=/cache", "--cache-size=1G"), 256),
        (("--cache-dir=/cache", "--cache-size=16M"), 4),
        (("--cache-dir=/cache", "--cache-size=1G", "--offline"), 0),
        (("--cache-dir=/cache", "--cache-size=1G", "--cache-mode=stream"), 64),
        (("--cache-dir=/cache", "--cache-mode=stream", "--max-memory=512M"), 32),
    ],
)
def test_a_quarter_of_the_cache_is_requested_ahead(
    words: tuple[str, ...], expected: int | None
) -> None:
    """The limit is a number of records, each of which may take a block of 1 MiB."""
    assert asked(*words).volume_options().get("far_records") == expected
