"""The executor of each engine: the same answers, killed workers, Ctrl-C, and what is refused."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ffrfs import errors
from ffrfs.cluster import adapters, executors
from ffrfs.cluster.executors import FORMS, ProcessExecutor, open_executor, slots
from ffrfs.errors import ChecksumError, FfrfsError, OptionError
from tests.checkout import CHECKOUT
from tests.cluster import engines
from tests.cluster.engines import Engine
from tests.interpreter import python

ENGINES = [
    "processes",
    pytest.param("dask", marks=pytest.mark.xdist_group("dask")),
    pytest.param("ray", marks=pytest.mark.xdist_group("ray")),
]
every_engine = pytest.mark.parametrize("executor_text", ENGINES, indirect=True)


def until(holds: Callable[[], object]) -> None:
    """Wait without a limit: as for the results of tasks, pytest's own limit ends it."""
    while not holds():
        time.sleep(0.02)


@every_engine
def test_tasks_errors_and_a_killed_worker(executor_text: str, tmp_path: Path) -> None:
    """Results come whole, errors as they were raised, and a lost task begins again."""
    with open_executor(executor_text) as executor:
        until(lambda: slots(executor) in (1, 2))  # a worker may have just been killed
        futures = [executor.submit(engines.square, number) for number in range(25)]
        killed = executor.submit(engines.die_once, str(tmp_path / "marker"))
        futures += [executor.submit(engines.square, number) for number in range(25, 50)]
        assert [future.result() for future in futures] == [n * n for n in range(50)]
        assert killed.result() > 0
        assert executor.submit(engines.size_of, data=bytes(3 << 20)).result() == {"size": 3 << 20}
        error = executor.submit(engines.refuse, "/a/b.ffr").exception()
        # Equal arguments are no reason to run one task only.
        pids = {executor.submit(os.getpid).result() for _ in range(3)}
        assert os.getpid() not in pids
    assert type(error) is ChecksumError
    assert str(error) == "/a/b.ffr: record 7: checksum mismatch"
    assert (error.file, error.record) == ("/a/b.ffr", 7)


@contextlib.contextmanager
def driver(text: str, folder: Path, count: int, sleep_s: float) -> Iterator[subprocess.Popen[str]]:
    """A driver in a process group of its own, as a shell starts it."""
    program = ["-c", "from tests.cluster.engines import main; main()"]
    program += [text, str(folder), str(count), str(sleep_s)]
    command = engines.mpi_command(*program) if text == "mpi" else [sys.executable, *program]
    process = subprocess.Popen(
        command,
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def marks(folder: Path) -> list[int]:
    """Return the ids of the processes that have begun tasks."""
    return [int(path.read_text() or 0) for path in folder.iterdir()]


def is_gone(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


@every_engine
def test_ctrl_c_ends_the_waiting_tasks(executor_text: str, tmp_path: Path) -> None:
    check_ctrl_c(executor_text, tmp_path)


@pytest.mark.xdist_group("mpi")
def test_ctrl_c_ends_the_waiting_tasks_of_mpi(tmp_path: Path) -> None:
    check_ctrl_c("mpi", tmp_path)


def check_ctrl_c(text: str, folder: Path) -> None:
    with driver(text, folder, 40, 1) as process:
        until(lambda: len(marks(folder)) >= 2)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate()
    assert process.returncode != 0
    begun = -1
    while begun != (now := len(marks(folder))):  # some may have been on their way to a worker
        begun = now
        time.sleep(1.5)
    assert begun < 40, told
    assert told.count("Traceback") <= 1, told  # only the driver's


@pytest.mark.xdist_group("mpi")
def test_ranks_of_mpi(tmp_path: Path) -> None:
    with driver("mpi", tmp_path, 50, 0) as process:
        told, problems = process.communicate(timeout=200)
    assert (process.returncode, problems) == (0, "")
    assert told.splitlines() == [
        f"slots {engines.MPI_RANKS - 1}",
        f"squares {' '.join(str(n * n) for n in range(50))}",
        "error ChecksumError /a/b.ffr: record 7: checksum mismatch",
    ]


def test_mpi_needs_ranks() -> None:
    with pytest.raises(OptionError, match="mpiexec -n RANKS python -m mpi4py"):  # noqa: SIM117
        with open_executor("mpi"):
            pass


@pytest.mark.xdist_group("ray")
def test_ray_client(ray_engine: Engine, tmp_path: Path) -> None:
    if ray_engine.client_text is None:
        pytest.skip("no grpcio here (pip install 'ray[client]')")
    # In a process of its own, since Ray knows one way to a cluster at a time.
    program = ["-c", "from tests.cluster.engines import main; main()", ray_engine.client_text]
    done = python(*program, str(tmp_path), "20", "0", cwd=CHECKOUT, timeout=100)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert f"squares {' '.join(str(n * n) for n in range(20))}\n" in done.stdout
    assert "error ChecksumError /a/b.ffr: record 7: checksum mismatch" in done.stdout


@pytest.mark.xdist_group("dask")
def test_a_lost_scheduler_of_dask(dask_engine: Engine) -> None:
    """Its client cancels the tasks that it waits for."""
    with open_executor(dask_engine.text) as executor:
        future = executor.submit(time.sleep, 1)
        executor._client.close()  # type: ignore[attr-defined]
        with pytest.raises(FfrfsError, match="scheduler is gone"):
            future.result()


@pytest.mark.xdist_group("dask")
def test_results_of_killed_workers_are_computed_again(dask_engine: Engine, tmp_path: Path) -> None:
    """This also holds for Dask's own executor, which a caller may give us."""
    import distributed

    with distributed.Client(dask_engine.text.removeprefix("dask://")) as client:
        executor = executors.adopted(client.get_executor())
        until(lambda: slots(executor) in (1, 2))

        def keys_of(task: str) -> list[str]:
            return [key for key in list(client.futures) if key.startswith(task)]

        futures = [executor.submit(engines.square, number) for number in range(20)]
        futures.append(executor.submit(engines.die_once, str(tmp_path / "killed")))
        assert [future.result() for future in futures[:-1]] == [n * n for n in range(20)]
        assert futures[-1].result() > 0
        # Only at some moments a kill loses a result; Dask then does the same as this cancel().
        marker = tmp_path / "marker"
        future = executor.submit(engines.wait_for, str(marker))
        until(lambda: keys_of("wait_for"))
        client.cancel([distributed.Future(key, client) for key in keys_of("wait_for")])
        marker.touch()
        assert future.result() == str(marker)


@pytest.mark.xdist_group("dask")
def test_dask_gives_up_a_task_that_always_kills_its_worker(dask_engine: Engine) -> None:
    with open_executor(dask_engine.text) as executor:
        error = executor.submit(engines.die).exception()
    assert type(error) is FfrfsError
    assert str(error).startswith("Dask gave up a task: Attempted to run")


def test_every_error_can_be_sent() -> None:
    names = [
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, FfrfsError)
    ]
    assert len(names) > 20
    with open_executor("processes:1") as executor:
        for name in names:
            error = executor.submit(engines.raise_error, name).exception()
            assert type(error) is getattr(errors, name)
            expected = "/a/b.ffr: record 3: not as it was"
            assert errors.describe(error) == expected
            assert (error.file, error.reason, error.record) == ("/a/b.ffr", expected[10:], 3)


def test_a_task_that_always_kills_its_process_is_given_up() -> None:
    with open_executor("processes:2") as executor:
        lost = [executor.submit(engines.die) for _ in range(2)]
        good = [executor.submit(engines.square, number) for number in range(20)]
        assert [future.result() for future in good] == [n * n for n in range(20)]
        for future in lost:
            with pytest.raises(FfrfsError, match=r"lost 4 times at the same task \(SIGKILL\)"):
                future.result()


def test_a_process_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that embeds Python names none, or all processes that are allowed are in use."""

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), sys.executable)

    with open_executor("processes:1") as executor:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", "")
            error = executor.submit(os.getpid).exception()
        monkeypatch.setattr(subprocess, "Popen", refuse)
        assert isinstance(error, FfrfsError)
        assert str(error) == (
            "a process for tasks cannot be started: sys.executable names no Python"
        )
        error = executor.submit(os.getpid).exception()
        assert error is not None
        assert errors.describe(error).startswith("cannot start a process: all that are allowed")


def test_an_unpicklable_task_or_result_fails_alone() -> None:
    with open_executor("processes:1") as executor:
        pid = executor.submit(os.getpid).result()
        assert executor.submit(lambda: 1).exception() is not None
        assert isinstance(executor.submit(open, os.devnull).exception(), FfrfsError)
        assert executor.submit(os.getpid).result() == pid


def test_closing_the_executor_waits_for_all_tasks() -> None:
    """`with` waits for all tasks, as it does for any executor."""
    with ProcessExecutor(2) as executor:
        futures = [executor.submit(engines.square, number) for number in range(20)]
        pid = executor.submit(os.getpid)
    assert [future.result(0) for future in futures] == [n * n for n in range(20)]
    assert is_gone(pid.result())


def test_running_tasks_clean_up_if_the_with_block_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "_END_S", 600)  # enough for a busy machine
    paths = [tmp_path / "0", tmp_path / "1"]
    with pytest.raises(ZeroDivisionError), open_executor("processes:2") as executor:
        for path in paths:
            executor.submit(engines.hold, str(path))
        until(lambda: all(path.exists() for path in paths))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sleep_s", [0.05, 60], ids=["idle", "busy"])
def test_processes_end_with_a_killed_driver(tmp_path: Path, sleep_s: float) -> None:
    with driver("processes:3", tmp_path, 3, sleep_s) as process:
        until(lambda: len(marks(tmp_path)) == 3 and all(marks(tmp_path)))
        pids = marks(tmp_path)
        assert not any(map(is_gone, pids)) or sleep_s < 1
        process.kill()
        until(lambda: all(map(is_gone, pids)))


@pytest.mark.parametrize(
    "text",
    [
        *("", "process", "processes:", "processes:x", "processes:-1", "threads", "mpi:3"),
        *("dask://", "dask://host", "dask://host:0", "dask://host:65536", "dask://host:1/path"),
        *("dask:host:1", "ray:auto", "ray://", "ray://user@host:1", "DASK://host:1", "mpi\n"),
    ],
)
def test_invalid_executor_texts(text: str) -> None:
    with pytest.raises(OptionError) as caught:
        open_executor(text)
    assert str(caught.value).endswith(FORMS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["processes:0", "processes:1025"])
def test_too_many_processes(text: str) -> None:
    with pytest.raises(OptionError, match=f"{text}: 1 to 1024 processes are possible"):
        open_executor(text)


@pytest.mark.parametrize(
    ("text", "package", "extra"),
    [
        ("dask://localhost:1", "distributed", "dask"),
        ("ray://localhost:1", "ray", "ray"),
        ("ray", "ray", "ray"),
        ("mpi", "mpi4py", "mpi"),
    ],
)
def test_a_missing_package_is_named(
    text: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(FfrfsError) as caught, open_executor(text):
        pass
    advice = f"a package is missing; to install it: pip install 'ffrfs[{extra}]'"
    assert str(caught.value) == f"executor {text}: {advice}"


@pytest.mark.parametrize(
    ("form", "package"), [("dask://{}", "distributed"), ("ray://{}", "ray"), ("ray", "ray")]
)
def test_an_address_where_no_server_listens(
    form: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    monkeypatch.setattr(adapters, "CONNECT_S", 0.5)
    with engines.free_ports(1) as [port]:
        place = f"127.0.0.1:{port}"
        monkeypatch.setenv("RAY_ADDRESS", place)
        began_s = time.monotonic()
        with pytest.raises(FfrfsError, match=place) as caught, open_executor(form.format(place)):
            pass
    assert time.monotonic() - began_s < 60  # Ray itself tries for longer
    assert "\n" not in str(caught.value)


def test_a_server_that_listens_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a server that `ray start` has just begun."""
    monkeypatch.setattr(adapters, "CONNECT_S", 60)
    with engines.free_ports(1) as [port], socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        later = threading.Timer(0.3, listener.listen)
        later.start()
        adapters._require_listener(f"127.0.0.1:{port}")
        later.join()


def test_no_engine_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, ffrfs.cluster.executors as e; e.open_executor('dask://host:1'); "
        "sys.exit(' '.join({'ray', 'distributed', 'dask', 'mpi4py', 'numpy'} & set(sys.modules)))"
    )
    done = python("-c", code)
    assert done.stderr.strip() == ""
