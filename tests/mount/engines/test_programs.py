"""Programs that know nothing of ffrfs, on a mounted tree."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.mount import probes
from tests.mount.command import Mount
from tests.mount.makers import MakeMount


@pytest.fixture
def tree(golden: Path, mount: MakeMount) -> Mount:
    made: Mount = mount(golden / "packed.ffr")
    return made


@pytest.fixture
def manifest(golden: Path) -> dict[str, str | None]:
    loaded: dict[str, str | None] = json.loads((golden / "packed.manifest.json").read_text())
    return loaded


def run(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, start_new_session=True, check=True
    )
    return done.stdout


def test_opencv_and_pil_read_images(tree: Mount, manifest: dict[str, str | None]) -> None:
    images = [path for path in manifest if path.endswith(".png")]
    assert images
    for path in images:
        by_opencv, by_pil = tree.ask(probes.load_image, path)
        assert by_opencv.size > 0
        assert np.array_equal(by_opencv[:, :, ::-1], by_pil)


def test_numpy_reads_arrays(tree: Mount, manifest: dict[str, str | None]) -> None:
    arrays = [path for path in manifest if path.endswith(".npy")]
    assert arrays
    for path in arrays:
        whole, mapped = tree.ask(probes.load_array, path)
        assert whole.size > 0
        assert np.array_equal(whole, mapped)


def test_cp_and_diff(tree: Mount, manifest: dict[str, str | None], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    run("cp", "-r", str(tree.path), str(copy))
    for path, digest in manifest.items():
        if digest is None:
            assert (copy / path).is_dir()
        else:
            assert hashlib.sha256((copy / path).read_bytes()).hexdigest() == digest
    assert run("diff", "-r", str(tree.path), str(copy)) == ""
    run("chmod", "-R", "u+w", str(copy))  # or the temporary folder cannot be removed


def test_sha256sum_find_du_and_tar(
    tree: Mount, manifest: dict[str, str | None], tmp_path: Path
) -> None:
    files = {path: digest for path, digest in manifest.items() if digest is not None}
    sums = tmp_path / "sums"
    sums.write_text("".join(f"{digest}  {tree / path}\n" for path, digest in files.items()))
    run("sha256sum", "--quiet", "--strict", "-c", str(sums))
    found = run("find", str(tree.path), "-type", "f", "-printf", r"%P\n").splitlines()
    assert sorted(found) == sorted(files)
    size = int(run("du", "-s", "--block-size=1", str(tree.path)).split()[0])
    assert size >= sum(tree.ask(probes.stat, path).st_size for path in list(files)[:20])
    archive = str(tmp_path / "tree.tar")
    run("tar", "-cf", archive, "-C", str(tree.path), ".")
    assert run("tar", "-df", archive, "-C", str(tree.path)) == ""
