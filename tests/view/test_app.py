"""How the viewer shows a fault of ffrfs itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffrfs.view import choice, health
from tests.tfrecord_file import write_tfrecord
from tests.view.conftest import Serve


def test_an_internal_error_is_shown_and_logged(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "_bounds", lambda count: 1 // (count - 1))
    pages = serve(write_tfrecord(tmp_path / "x.tfrecord", [b"x"]))
    answer = pages.get("/health")
    assert answer.status == 500
    assert "a fault of ffrfs: ZeroDivisionError: integer division" in answer.text
    (record,) = caplog.records
    assert record.getMessage() == "/health: a fault of ffrfs"
    assert "in health" in caplog.text  # the traceback
    assert pages.get("/").status == 200


def test_an_internal_error_of_a_job_is_not_taken_for_its_end(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(choice.Choice, "_find", lambda *_: 1 // 0)
    pages = serve(write_tfrecord(tmp_path / "x.tfrecord", [b"x"]))
    error = pages.ended("/", sort="size")["error"]
    assert "a fault of ffrfs: ZeroDivisionError: integer division" in error
    assert "a fault of ffrfs" in caplog.text


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/statistics?path=1", 200),
        ("/health?scrub=1&path=x", 303),
        (f"/item?key={'1' * 5000}", 404),
    ],
    ids=["statistics", "health", "item"],
)
def test_odd_parameters_cause_no_internal_error(
    tmp_path: Path, serve: Serve, target: str, status: int
) -> None:
    pages = serve(write_tfrecord(tmp_path / "x.tfrecord", [b"x"]))
    assert pages.ask(target, headers={"Cookie": pages.cookie}).status == status
