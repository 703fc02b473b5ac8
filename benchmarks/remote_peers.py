"""The peers of the part `remote`: file systems over object storage, with a file for an object."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import mounts
from benchmarks.mounts import Mount
from benchmarks.remote_site import BUCKET, SEAWEEDFS, SINGLE, Site

RCLONE, S3FS = "rclone mount", "s3fs"
PROGRAMS = {RCLONE: "rclone", S3FS: "s3fs"}


def why_missing(name: str) -> str:
    """Return why the peer is missing; "" if it is there."""
    return "" if _found(name) else f"there is no {PROGRAMS[name]}"


@contextlib.contextmanager
def mounted(name: str, site: Site) -> Iterator[Mount]:
    """Mount the whole bucket; the single files are below SINGLE. Nothing is cached at first."""
    point = site.work / "peer"
    point.mkdir(exist_ok=True)
    with mounts.served(_command(name, site.lines[SEAWEEDFS].url, point), point) as mount:
        yield Mount(mount.root / SINGLE, mount.daemon)


def _command(name: str, endpoint: str, point: Path) -> list[str | Path]:
    program = _found(name)
    assert program is not None
    if name == S3FS:
        # use_path_request_style: otherwise s3fs puts the bucket into the name of the host.
        options = f"url={endpoint},use_path_request_style,ro,sigv4,endpoint=us-east-1"
        return [program, BUCKET, point, "-f", "-o", options]
    backend = ["--s3-provider", "SeaweedFS", "--s3-env-auth", "--s3-endpoint", endpoint]
    return [
        program,
        "mount",
        f":s3:{BUCKET}",
        point,
        "--config",
        "/dev/null",
        "--read-only",
        *backend,
    ]


def _found(name: str) -> str | None:
    """Look beside our interpreter first: the package of PyPI is newer than Debian's."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    return shutil.which(PROGRAMS[name], path=path)
