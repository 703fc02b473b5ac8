"""Parsed URLs: which are accepted, which are refused, and how they are shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.errors import OptionError
from ffrfs.remote.url import RemoteUrl, is_url, parse_url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://bucket/a/b.ffr", RemoteUrl("s3", "bucket", "a/b.ffr")),
        ("S3://Bucket/a?b#c%20", RemoteUrl("s3", "Bucket", "a?b#c%20")),
        ("http://a.b.:80/c", RemoteUrl("http", "a.b.:80", "c")),
        ("gs://bucket", RemoteUrl("gs", "bucket", "")),
        ("az://box/set/", RemoteUrl("az", "box", "set/")),
        ("http://Host:80/a%20b", RemoteUrl("http", "host:80", "a%20b")),
        ("https://[::1]:8443/a?X-Sig=1#part", RemoteUrl("https", "[::1]:8443", "a", "X-Sig=1")),
        ("file:///nfs/a%20b", RemoteUrl("file", "", "/nfs/a b")),
        ("file://localhost/nfs/", RemoteUrl("file", "", "/nfs/")),
    ],
)
def test_accepted_urls(text: str, expected: RemoteUrl) -> None:
    assert is_url(text)
    assert is_url(text.encode())
    assert parse_url(text) == expected
    assert parse_url(expected.text) == expected


@pytest.mark.parametrize(
    "name", ["a.ffr", "/a", "s3:/a", "./s3://a/b", "ftp://a/b", "", "C:\\a", "\u017f3://a/b"]
)
def test_paths_are_not_urls(name: str) -> None:
    assert not is_url(name)
    assert not is_url(Path(name))
    with pytest.raises(OptionError, match="not a supported URL"):
        parse_url(name)


@pytest.mark.parametrize(
    "text",
    [
        "s3://",
        "s3:///key",
        "s3://b/a//b",
        "s3://b//a",
        "s3://b/../a",
        "gs://b/./a",
        "az://b/a/..",
        "http:///a",
        "http://host:port/a",
        "http://ho st/a",
        "http://h/a\nb",
        "http://a..b/c",
        "http://.a/c",
        f"http://{'a' * 64}.b/c",
        "s3://b/a\0",
        "file://other/a",
        "file://a",
        "file:///a%00b",
        "https://h/" + "a" * 9000,
    ],
)
def test_refused_urls(text: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_url(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text",
    [
        "https://me:hush@host/a",
        "https://me:hush/hush@host/a",
        "https://me:hush?hush@host/a",
        "https://me:hush#hush@host/a",
        "s3://KEY:hush@bucket/a",
        "s3://KEY:hush/hush@bucket/a",
    ],
)
def test_users_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(OptionError, match="must not contain a user") as caught:
        parse_url(text)
    assert "hush" not in str(caught.value)


def test_a_signature_is_not_shown() -> None:
    url = parse_url("https://host/dir/a.ffr?X-Amz-Signature=hush")
    assert url.shown == "https://host/dir/a.ffr"
    assert "hush" in url.text


def test_directories() -> None:
    assert parse_url("s3://bucket").is_directory
    assert parse_url("s3://bucket").child("x").text == "s3://bucket/x"
    folder = parse_url("https://host/set/?token=1")
    assert folder.is_directory
    assert folder.child("a.ffr").text == "https://host/set/a.ffr?token=1"
    assert not parse_url("s3://bucket/x").is_directory


@given(st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name))
def test_file_paths_survive_a_round_trip(name: bytes) -> None:
    path = os.fsdecode(b"/" + name)
    assert parse_url(RemoteUrl("file", "", path).text).key == path


@given(st.text(max_size=60))
def test_hostile_texts_are_accepted_or_refused(text: str) -> None:
    for scheme in ("s3", "https", "file"):
        try:
            url = parse_url(f"{scheme}://{text}")
        except OptionError as error:
            assert str(error).isprintable()
        else:
            assert parse_url(url.text) == url
