"""Real engines for the tests, and tasks for them: Dask, Ray and MPI on loopback ports.

Each engine is a process group of its own, and is ended by its id. The tasks are here because
workers import them, and so is a driver: main().
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import dataclass, field
from pathlib import Path

from tests.checkout import CHECKOUT
from tests.remote.servers.program import free_ports, require, running

MPI_RANKS = 3  # the driver, and two for tasks


@dataclass(frozen=True)
class Engine:
    """A running engine: its text for --executor, and the environment that it needs."""

    text: str
    environment: dict[str, str] = field(default_factory=dict)
    client_text: str | None = None  # for Ray's client


def shared(name: str, engine: Engine) -> dict[str, str]:
    """Return the variables by which outer() finds the engine in another pytest."""
    return {f"FFRFS_TEST_{name.upper()}": json.dumps(dataclasses.asdict(engine))}


def outer(name: str) -> contextlib.AbstractContextManager[Engine] | None:
    """Return the engine that the parent pytest shares with this one; None if it shares none."""
    text = os.environ.get(f"FFRFS_TEST_{name.upper()}")
    return None if text is None else contextlib.nullcontext(Engine(**json.loads(text)))


@contextlib.contextmanager
def dask(folder: Path, *, workers: int = 2) -> Iterator[Engine]:
    """Run a scheduler, and workers of one thread, each of which is started again when killed."""
    program = require("dask", remedy="pip install 'ffrfs[dask]'")
    environment = {
        "PYTHONPATH": _python_path(),
        "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "false",
    }
    scheduler = [program, "scheduler", "--host", "127.0.0.1", "--no-show", "--no-dashboard"]
    nanny = [program, "worker", "--nworkers", str(workers), "--nthreads", "1"]
    nanny += ["--no-dashboard", "--local-directory", str(folder / "dask")]
    logs = folder / "dask-scheduler.log", folder / "dask-workers.log"
    with (
        free_ports(1) as [port],
        # The workers try until the scheduler listens.
        running(
            [*scheduler, "--port", str(port)],
            logs[0],
            lambda: True,
            environment=environment,
            patient=False,
        ),
        running(
            [*nanny, f"tcp://127.0.0.1:{port}"],
            logs[1],
            lambda: logs[0].read_text().count("Register worker") >= workers,
            environment=environment,
            patient=False,
        ),
    ):
        yield Engine(f"dask://127.0.0.1:{port}")


@contextlib.contextmanager
def ray(folder: Path, *, cpus: int = 2) -> Iterator[Engine]:
    """Run a head node. Only `engine.environment` leads to it, nothing else on this machine does."""
    program = require("ray", remedy="pip install 'ffrfs[ray]'")
    has_client = importlib.util.find_spec("grpc") is not None  # ray[client] has it
    environment = {
        "PYTHONPATH": _python_path(),
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        # With fork support, Ray's server for a client sometimes hangs at its start.
        "GRPC_ENABLE_FORK_SUPPORT": "0",
    }
    log = folder / "ray.log"
    # A socket's path has at most 107 bytes; Ray's sockets add 65 bytes to this path.
    with (
        tempfile.TemporaryDirectory(prefix="ffrfs-ray-", ignore_cleanup_errors=True) as place,
        free_ports(2) as (port, client_port),
    ):
        command = [program, "start", "--head", "--block", "--num-cpus", str(cpus)]
        command += ["--node-ip-address", "127.0.0.1", "--port", str(port), "--temp-dir", place]
        command += ["--disable-usage-stats"]
        command += ["--ray-client-server-port", str(client_port)] if has_client else []
        command += ["--include-dashboard", "false", "--include-log-monitor", "false"]
        command += ["--min-worker-port", "0", "--max-worker-port", "0"]
        command += ["--object-store-memory", str(100 << 20)]
        question = [program, "health-check", "--address", f"127.0.0.1:{port}"]
        question += ["--component", "ray_client_server"] if has_client else []

        def answers() -> bool:
            """Return whether Ray answers; the check itself takes a second of a CPU."""
            if "Ray runtime started" not in log.read_text():
                return False
            if has_client and not listens(client_port):
                return False
            done = subprocess.run(
                question, env={**os.environ, **environment}, capture_output=True, check=False
            )
            return done.returncode == 0

        with running(command, log, answers, environment=environment, patient=False):
            del environment["PYTHONPATH"]
            environment["RAY_ADDRESS"] = f"127.0.0.1:{port}"
            client_text = f"ray://127.0.0.1:{client_port}" if has_client else None
            yield Engine("ray", environment, client_text)


def listens(port: int) -> bool:
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def mpi_command(*program: str, ranks: int = MPI_RANKS) -> list[str]:
    """Return the command by which a user runs `python PROGRAM` with MPI."""
    mpiexec = require("mpiexec", remedy="apt-get install openmpi-bin")
    allow = ["--allow-run-as-root", "--oversubscribe"]
    return [mpiexec, *allow, "-n", str(ranks), sys.executable, "-m", "mpi4py.futures", *program]


def _python_path() -> str:
    return os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))


# Tasks.


def square(number: int) -> int:
    return number * number


def size_of(data: bytes) -> dict[str, int]:
    return {"size": len(data)}


def refuse(path: str) -> None:
    from ffrfs.errors import ChecksumError

    raise ChecksumError.at(path, "record 7: checksum mismatch", 7)


def die_once(marker: str) -> int:
    """Kill this process if it is the first to come here; return its id."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for(path: str) -> str:
    while not os.path.exists(path):
        time.sleep(0.01)
    return path


def raise_error(name: str) -> None:
    from ffrfs import errors

    raise getattr(errors, name).at("/a/b.ffr", "record 3: not as it was", 3)


def hold(path: str) -> None:
    """Keep a file there while the task runs; it does not end by itself."""
    try:
        Path(path).touch()
        while True:
            time.sleep(0.1)
    finally:
        os.remove(path)


def leave_mark(folder: str, number: int, sleep_s: float) -> None:
    """Write a file with the id of this process, as a sign that the task has begun."""
    Path(folder, str(number)).write_text(str(os.getpid()))
    time.sleep(sleep_s)


def main() -> None:
    """A driver with the arguments EXECUTOR FOLDER COUNT SECONDS: it waits for so many tasks."""
    from ffrfs.cluster.executors import open_executor, slots

    text, folder, count, sleep_s = sys.argv[1:]
    with open_executor(text) as executor:
        numbers = range(int(count))
        futures = [executor.submit(leave_mark, folder, n, float(sleep_s)) for n in numbers]
        print("slots", slots(executor), flush=True)
        wait(futures)
        results = [executor.submit(square, number) for number in numbers]
        print("squares", *(result.result() for result in results), flush=True)
        try:
            executor.submit(refuse, "/a/b.ffr").result()
        except Exception as error:
            print("error", type(error).__name__, error, flush=True)
