"""The settings of remote packs: as text and back, from the environment, and which are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ffrfs.errors import OptionError
from ffrfs.mount.daemon.background import _leave_everything
from ffrfs.remote.settings import GIB, RemoteSettings, default_cache_dir
from tests.cache.blocks import in_child


def test_json_round_trip() -> None:
    settings = RemoteSettings(
        "http://127.0.0.1:1/x", "eu-1", True, 1.5, "/nvme/c", 500 * GIB, "stream"
    )
    assert RemoteSettings.from_json(settings.to_json()) == settings
    assert RemoteSettings.from_json("{}") == RemoteSettings()
    assert RemoteSettings.from_json('{"timeout_s": 5}').timeout_s == 5


@pytest.mark.parametrize(
    "fields",
    [
        [],
        {"secret": "x"},
        {"anonymous": 1},
        {"cache_size": "1"},
        {"cache_size": True},
        {"region": 5},
        {"timeout_s": "60"},
        {"timeout_s": None},
    ],
)
def test_other_json_is_refused(fields: Any) -> None:
    with pytest.raises(OptionError):
        RemoteSettings.from_json(json.dumps(fields))


def test_from_the_environment() -> None:
    assert RemoteSettings.from_environment({}) == RemoteSettings()
    settings = RemoteSettings.from_environment(
        {
            "FFRFS_ENDPOINT_URL": "https://s3.example:9000",
            "FFRFS_REGION": "eu-1",
            "FFRFS_ANONYMOUS": "1",
            "FFRFS_REMOTE_TIMEOUT": "2.5",
            "FFRFS_CACHE_DIR": "/nvme/ffrfs",
            "FFRFS_CACHE_SIZE": "500G",
            "FFRFS_CACHE_MODE": "stream",
        }
    )
    assert settings == RemoteSettings(
        "https://s3.example:9000", "eu-1", True, 2.5, "/nvme/ffrfs", 500 * GIB, "stream"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"endpoint_url": "s3.example"},
        {"endpoint_url": "https://me:hush@s3.example"},
        {"endpoint_url": "https://me:hush?hush@s3.example"},
        {"endpoint_url": "https://s3.example/?key=me@hush"},
        {"endpoint_url": "https://s3.example/?key=hush"},
        {"timeout_s": 0},
        {"timeout_s": float("nan")},
        {"cache_size": 0},
        {"cache_mode": "some"},
    ],
)
def test_refused_values(fields: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as caught:
        RemoteSettings(**fields)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("variable", ["ANONYMOUS", "REMOTE_TIMEOUT", "CACHE_SIZE", "CACHE_MODE"])
def test_refused_environment_variables(variable: str) -> None:
    with pytest.raises(OptionError):
        RemoteSettings.from_environment({f"FFRFS_{variable}": "perhaps"})


def test_a_mount_has_the_cache_directory_of_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FFRFS_CACHE_DIR", "cache")

    def begin_a_daemon() -> None:
        _leave_everything([])
        (tmp_path / "found").write_text(f"{RemoteSettings.from_environment().cache_dir}")

    in_child(begin_a_daemon)
    assert (tmp_path / "found").read_text() == f"{tmp_path}/cache"


def test_the_default_cache_directory() -> None:
    assert default_cache_dir({"XDG_CACHE_HOME": "/x"}) == "/x/ffrfs"
    assert default_cache_dir({"XDG_CACHE_HOME": "x"}).endswith("/.cache/ffrfs")
