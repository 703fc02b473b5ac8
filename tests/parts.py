"""The parts of the Python tests: `make test` runs one of them, each `make check-PART` another.

A test belongs to the first part whose rule it meets, and to "test" if it meets none. A part is a
target of the Makefile, which installs what the part needs. `pytest --part NAME,…` selects; plain
pytest runs everything.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.checkout import CHECKOUT


@dataclass(frozen=True)
class Part:
    """`files`: patterns of paths in the checkout. `uses`: fixtures, marks, values of parameters."""

    name: str
    reason: str  # why `make test` leaves it out
    files: tuple[str, ...] = ()
    uses: frozenset[str] = frozenset()


CHECKS = (
    Part(
        "programs",
        "benchmarks need the whole machine, and pictures matplotlib",
        ("tests/house/test_programs.py", "tests/docs/test_pictures.py"),
    ),
    Part(
        "lint",
        "ruff, mypy and what it needs to know types, mkdocs",
        ("tests/tfrecord/test_types.py", "tests/docs/test_site.py"),
    ),
    Part(
        "house",
        "documents, their examples and the structure of the code are the same on every machine",
        ("tests/house/*", "tests/docs/*", "tests/cli/test_help.py"),
    ),
    Part(
        "torch",
        "torch is large",
        (
            "tests/adapters/torch/*",
            "tests/adapters/compat/test_scripts.py",
            "tests/adapters/compat/test_*_table*.py",
        ),
        frozenset({"torch"}),
    ),
    Part(
        "clusters",
        "Dask, Ray and MPI are large; tasks that are killed take minutes",
        (
            *("tests/adapters/dask/*", "tests/adapters/ray/*", "tests/cluster/test_executors.py"),
            *("tests/cluster/test_cluster_faults.py", "tests/cluster/test_same_bytes.py"),
            *("tests/cluster/test_file_tasks.py", "tests/cluster/test_planned_pack.py"),
            "tests/cluster/test_one_packer.py",
        ),
        frozenset({"dask", "ray", "mpi", "dask_engine", "ray_engine"}),
    ),
    Part(
        "clouds",
        "emulators of S3, Azure and GCS come from PyPI and npm; servers that fail take minutes",
        (
            *("tests/remote/test_servers.py", "tests/remote/test_*fault*.py"),
            *("tests/remote/test_fetcher*.py", "tests/remote/test_mount_*.py"),
            *("tests/remote/test_small_caches.py", "tests/remote/test_stream.py"),
            *("tests/remote/test_opening.py", "tests/mount/engines/test_remote*.py"),
            *("tests/remote/test_offline.py", "tests/remote/test_session.py"),
            *("tests/cluster/test_proxy.py", "tests/cache/test_killed.py"),
        ),
        frozenset({"s3", "azure", "gcs", "aws", "machine", "bucket"}),
    ),
    Part(
        "beam",
        "Apache Beam asks for older packages than other libraries do",
        ("tests/adapters/beam/*",),
    ),
    # This comes after torch and clouds: some of their tests use the same packages.
    Part(
        "loaders",
        "fsspec, pandas, Hugging Face and others that read packs are many packages",
        (
            *("tests/adapters/fsspec/*", "tests/adapters/loaders/*", "tests/remote/test_fsspec.py"),
            "tests/convert/test_webdataset_keys.py",
        ),
        frozenset({"fsspec", "upath", "webdataset", "grain"}),
    ),
    Part(
        "service",
        "systemd, shells and readers of manuals are many packages",
        (
            *("tests/service/*", "tests/mount/daemon/test_systemd.py"),
            *("tests/mount/daemon/test_notify.py", "tests/cluster/test_recipes.py"),
            "tests/cluster/test_two_containers.py",
        ),
    ),
    Part(
        "view",
        "a browser is large; commands that serve or draw, and pages of all kinds, take a minute",
        (
            *("tests/view/browser/*", "tests/view/test_view_command.py"),
            *("tests/view/test_decoded.py", "tests/view/test_statistics.py"),
            *("tests/view/test_thumbnails.py", "tests/view/test_item.py"),
            "tests/top/test_screen.py",
        ),
    ),
    Part(
        "transports",
        "mounts over io_uring, which are tested like those over /dev/fuse",
        ("tests/mount/engines/test_rings.py",),
        frozenset({"uring"}),
    ),
    Part(
        "long",
        "load, kills, hostile packs, large data and deadlines take minutes",
        (
            *("tests/soak/*", "tests/hostile/*"),
            *("tests/mount/daemon/test_guardian.py", "tests/mount/engines/test_replacement.py"),
            *("tests/mount/daemon/test_memory.py", "tests/mount/engines/test_differential.py"),
            *("tests/view/test_hostile_members.py", "tests/mount/engines/test_bad_input.py"),
            *("tests/mount/daemon/test_watchdog.py", "tests/mount/daemon/test_control_group.py"),
            *("tests/mount/engines/test_prefetch_large.py", "tests/cache/test_model.py"),
            *("tests/mount/engines/test_prefetch_memory.py", "tests/cli/test_progress_bar.py"),
            *("tests/mount/engines/test_prefetch_stalled.py", "tests/packing/test_repack_h*.py"),
            *("tests/mount/client/test_prefetch_hints.py", "tests/mount/daemon/test_liveness.py"),
            *("tests/mount/engines/test_stalled_disk.py", "tests/mount/kernel/test_stale.py"),
            *("tests/mount/engines/test_prefetch_fork.py", "tests/mount/engines/test_read_ar*.py"),
            *("tests/cli/test_deep_index.py", "tests/cli/test_large_examples.py"),
            *("tests/convert/test_parquet.py", "tests/files/test_leftovers.py"),
        ),
        frozenset({"long"}),
    ),
    # The code above the engines is the same for both.
    Part(
        "engines",
        "daemon, client and statistics by the other engine, pyfuse3",
        (),
        frozenset({"pyfuse3"}),
    ),
)
# The tests of these parts wait for processes, servers and deadlines more than they compute.
WAITING = {"long", "clouds", "clusters", "service"}
_WHOLE_FILES = {part.name for part in CHECKS if not part.uses}
_ANSWERS = "tests/mount/engines/*"  # These test where engines differ, so they run with both.


def part_of(item: pytest.Item) -> str:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    used = {*getattr(item, "fixturenames", ()), *(mark.name for mark in item.iter_markers())}
    used |= {value for value in parameters.values() if isinstance(value, str)}
    of_file = _parts_of_file(item.path)
    if fnmatch(_relative(item.path), _ANSWERS):
        used.discard("pyfuse3")
    for part in CHECKS:
        if part.name in of_file or used & part.uses:
            return part.name
    return "test"


def is_left_out(path: Path, chosen: Sequence[str]) -> bool:
    """Return whether no test of a file is chosen, so that it need not be imported."""
    of_file = _parts_of_file(path)
    return of_file[0] not in chosen if of_file else _WHOLE_FILES.issuperset(chosen)


def left_out(chosen: Sequence[str]) -> list[str]:
    """Return a line for each part that was not chosen."""
    return [f"make check-{part.name:12}{part.reason}" for part in CHECKS if part.name not in chosen]


@functools.cache
def _parts_of_file(path: Path) -> list[str]:
    """Return the parts whose rule all tests of a file meet; the file belongs to the first one."""
    name = _relative(path)
    return [part.name for part in CHECKS if any(fnmatch(name, each) for each in part.files)]


@functools.cache
def _relative(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))
