"""How well a training job's accelerator is used when each sample is a file: DLIO's measure.

    python -m benchmarks.dlio [--dir DIR] [--rounds N] [--files N]

DLIO (dlio-benchmark from PyPI) makes the files, and trains two epochs with torch's DataLoader;
workload/file_a_sample.yaml has the job. Every packed file lies on a disk that takes a millisecond
for a read (slow_disk.c), with nothing cached at first. Prints a table: the accelerator's share of
the time, and samples a second, in the first and the second epoch.

With hints, `ffrfs prefetch` names all files, in the order of the pack, while the job starts. DLIO
makes a new data set for each epoch, so `ffrfs run` could not learn its paths.

DLIO and the TensorFlow that it imports go into an environment of their own below build/, which
finds torch and mpi4py in that of the checkout.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import contenders, measure, packers, page_cache, slow_disk
from benchmarks.contenders import EROFS, FOLDER, HINTS, NATIVE, SQUASHFS, SQUASHFUSE, served_by
from benchmarks.mounts import Mount
from benchmarks.slow_disk import SlowDisk

ENVIRONMENT = Path(__file__).resolve().parents[2] / "build" / "dlio"
PROGRAM = ENVIRONMENT / "bin" / "dlio_benchmark"
ALONE = ["dlio-benchmark==2.0.0"]  # without its dependencies: CUDA's DALI is unused here
NEEDED = ["hydra-core>=1.3.2", "pydftracer==1.0.2", "tensorflow-cpu==2.21.*"]
NAMES = (FOLDER, EROFS, SQUASHFS, SQUASHFUSE, NATIVE, HINTS)
TIMEOUT_S = 900


@dataclass(frozen=True)
class Job:
    """Files of DLIO, and the packed files on the slow disk."""

    work: Path
    count: int
    disk: SlowDisk

    @classmethod
    def make(cls, work: Path, count: int) -> Job:
        for name in ("packed", "slow", "mnt"):
            (work / name).mkdir()
        program = work / "slow_disk"
        slow_disk.compile_program(program)
        job = cls(work, count, SlowDisk(program, work / "packed", work / "slow"))
        job._run(work / "source", "workflow.generate_data=True", "workflow.train=False")
        return job

    def train(self, name: str) -> list[float]:
        """Return the accelerator's shares in percent, and then the rates, of both epochs."""
        packer = packers.EXT4 if name == FOLDER else contenders.PACKERS[served_by(name)]
        stored = contenders.store(packer, self.work / "source", self.disk.folder)
        page_cache.fill([stored])
        with (
            self.disk.mounted() as root,
            contenders.mounted(served_by(name), root / stored.name, self.work / "mnt") as mount,
            self._hinted(mount) if name == HINTS else contextlib.nullcontext(),
        ):
            metric = self._run(mount.root)["metric"]
        rates = metric["train_throughput_samples_per_second"]
        return [*metric["train_au_percentage"], *rates]

    @contextlib.contextmanager
    def _hinted(self, mount: Mount) -> Iterator[None]:
        names = sorted((self.work / "source" / "train").iterdir())
        order = self.work / "order"
        order.write_text("".join(f"train/{path.name}\n" for path in names))
        command = [*packers.FFRFS, "prefetch", mount.root, "--from", order]
        with subprocess.Popen(command, process_group=0) as child:
            try:
                yield
            finally:
                child.kill()

    def _run(self, data: Path, *changes: str) -> dict[str, dict[str, list[float]]]:
        with tempfile.TemporaryDirectory(dir=self.work) as output:
            places = [f"dataset.data_folder={data}", f"output.folder={output}"]
            count = f"dataset.num_files_train={self.count}"
            words = [f"++workload.{word}" for word in (*places, count, *changes)]
            measure.run(
                [
                    *("env", "DFTRACER_ENABLE=0", "OMP_NUM_THREADS=1", PROGRAM),
                    *("--config-dir", Path(__file__).parent, "workload=file_a_sample"),
                    *(f"hydra.run.dir={output}", *words),
                ],
                TIMEOUT_S,
                cwd=output,
            )
            summary = Path(output, "summary.json")
            found: dict[str, dict[str, list[float]]] = {}
            return json.loads(summary.read_text()) if summary.exists() else found


def install() -> None:
    """Make the environment unless it is complete: pip writes PROGRAM last."""
    if not PROGRAM.exists():
        measure.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], TIMEOUT_S)
        python = ENVIRONMENT / "bin" / "python"
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(ENVIRONMENT)}))
        (packages / "checkout.pth").write_text(sysconfig.get_path("purelib"))
        pip = [python, "-m", "pip", "install", "--quiet"]
        measure.run([*pip, *NEEDED], TIMEOUT_S)
        measure.run([*pip, "--no-deps", *ALONE], TIMEOUT_S)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dlio")
    parser.add_argument("--dir", help="for temporary files, on a real disk")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=6000)
    args = parser.parse_args()
    install()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        job = Job.make(Path(folder).resolve(), args.files)
        runs = {name: (lambda name=name: job.train(name)) for name in NAMES}
        samples = measure.interleave(runs, args.rounds)
    print("| contender | accelerator, 1st epoch | 2nd | samples/s, 1st epoch | 2nd |")
    print("|---|---|---|---|---|")
    for name in NAMES:
        medians = [statistics.median(each) for each in zip(*samples[name], strict=True)]
        print(f"| {name} | {medians[0]:.0f} % | {medians[1]:.0f} % ", end="")
        print(f"| {medians[2]:,.0f} | {medians[3]:,.0f} |")


if __name__ == "__main__":
    main()
