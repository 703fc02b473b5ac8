"""Filters, orders, samples, and lists of the items that they choose."""

from __future__ import annotations

import threading
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from ffrfs.errors import OptionError
from ffrfs.folder.tree import PackTree
from ffrfs.tfrecord import from_dict
from ffrfs.tfrecord.examples.messages import SequenceExample
from ffrfs.view.choice import Choice, Choices, Query
from ffrfs.view.collection import FileCollection
from ffrfs.view.conditions import parse_conditions
from tests.tfrecord_file import flip_record
from tests.view.conftest import Serve
from tests.view.examples import packed, write
from tests.view.pages import Pages

FILES = {
    "b/2.jpg": b"x" * 2000,
    "a/1.jpg": b"x" * 1000,
    "a/1.PNG": b"same",
    "b/notes.txt": b"same",
    "b/c/3.jpg": b"x" * 3000,
    "a.txt": b"else",
}


@pytest.fixture
def pages(tmp_path: Path, serve: Serve) -> Pages:
    return serve(packed(tmp_path / "a.ffr", FILES))


def complete(pages: Pages, **parameters: object) -> dict[str, Any]:
    """Return the page when all items have been examined."""
    page: dict[str, Any] = pages.ended("/", **parameters)
    assert page["error"] == ""
    return page


def keys(pages: Pages, **parameters: object) -> list[str]:
    return [item["key"] for item in complete(pages, **parameters)["items"]]


@pytest.mark.parametrize(
    "parameters, expected",
    [
        ({"name": "*.jpg"}, ["b/2.jpg", "a/1.jpg", "b/c/3.jpg"]),
        ({"name": "1."}, ["a/1.jpg", "a/1.PNG"]),
        ({"name": "b/*.jpg"}, ["b/2.jpg", "b/c/3.jpg"]),
        ({"name": "[!b]*", "folder": "b"}, ["b/2.jpg", "b/c/3.jpg", "b/notes.txt"]),
        ({"folder": "b", "sort": "record"}, ["b/2.jpg", "b/notes.txt", "b/c/3.jpg"]),
        ({"type": "png, .txt"}, ["a/1.PNG", "b/notes.txt", "a.txt"]),
        ({"size_min": "1K"}, ["b/2.jpg", "b/c/3.jpg"]),
        ({"size_max": "1000", "folder": "/a"}, ["a/1.PNG", "a/1.jpg"]),
        ({"size_max": "1000", "folder": "/", "type": "jpg"}, ["a/1.jpg"]),
        ({"only": "duplicates"}, ["a/1.PNG", "b/notes.txt"]),
        ({"only": "duplicates", "type": "txt"}, ["b/notes.txt"]),
        ({"only": "damaged"}, []),
        ({"sort": "path"}, sorted(FILES, key=lambda path: path.split("/"))),
        ({"sort": "path", "folder": "b"}, ["b/2.jpg", "b/c/3.jpg", "b/notes.txt"]),
        ({"sort": "size", "name": "jpg"}, ["a/1.jpg", "b/2.jpg", "b/c/3.jpg"]),
        ({"sort": "-size", "type": "jpg"}, ["b/c/3.jpg", "b/2.jpg", "a/1.jpg"]),
        ({"name": "*.jpg", "at": 1}, ["a/1.jpg", "b/c/3.jpg"]),
        ({"name": "*.jpg", "at": 99}, ["b/2.jpg", "a/1.jpg", "b/c/3.jpg"]),
    ],
    ids=str,
)
def test_files(pages: Pages, parameters: dict[str, object], expected: list[str]) -> None:
    assert keys(pages, **parameters) == expected


@pytest.mark.parametrize(
    "parameters, word",
    [
        ({"size_min": "much"}, "10K"),
        ({"sort": "colour"}, "sort="),
        ({"only": "good"}, "only="),
        ({"where": "label="}, "label==3"),
    ],
    ids=str,
)
def test_invalid_filters_are_refused(
    pages: Pages, parameters: dict[str, object], word: str
) -> None:
    answer = pages.get("/", **parameters)
    assert answer.status == 400 and word in answer.text
    assert pages.get("/paths", **parameters).status == 400


def test_an_absent_directory_gives_a_readable_error(pages: Pages) -> None:
    page = pages.ended("/", folder="absent", sort="size")
    assert "absent" in page["error"] and page["items"] == []


def test_a_failed_pass_is_not_restarted_before_its_error_is_shown(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page requests itself again while a pass runs."""
    passes, goes_on = 0, threading.Event()

    def fail(found: Choice, _job: object) -> None:
        nonlocal passes
        passes += 1
        found._found.append(found._collection.tree.file_ino("a.txt"))  # type: ignore[attr-defined]
        goes_on.wait(60)
        raise OSError("the disk is broken")

    monkeypatch.setattr(Choice, "_find", fail)
    assert pages.data("/", name="a")["progress"]["is_running"]
    (thread,) = (one for one in threading.enumerate() if one.name == "ffrfs items")
    goes_on.set()
    thread.join(60)
    shown = pages.get("/", name="a").text
    assert passes == 1 and "a.txt" in shown and "the disk is broken" in shown.partition("</p>")[0]
    assert pages.data("/", name="a")["error"] and passes == 2


def test_lists_of_paths(pages: Pages) -> None:
    answer = pages.get("/paths", type="jpg", sort="-size")
    assert answer.body == b"b/c/3.jpg\nb/2.jpg\na/1.jpg\n"
    assert "attachment" in answer.headers["content-disposition"]
    assert pages.get("/paths").body.split() == [path.encode() for path in FILES]
    assert pages.get("/paths", name="2", null=1).body == b"b/2.jpg\0"
    assert pages.get("/paths", name="nothing").body == b""
    with pytest.raises((HTTPException, OSError)):
        pages.get("/paths", folder="absent", type="jpg")


def test_a_list_never_cuts_a_path_in_two(tmp_path: Path, serve: Serve) -> None:
    pages = serve(packed(tmp_path / "a.ffr", {"a\nb": b""}))
    assert pages.get("/paths", null=1).body == b"a\nb\0"
    with pytest.raises((HTTPException, OSError)):
        pages.get("/paths")


def test_samples(tmp_path: Path, serve: Serve) -> None:
    files = {f"{number:04d}.{number % 2}": b"" for number in range(1000)}
    pages = serve(packed(tmp_path / "a.ffr", files))
    first, again, second = (pages.data("/", sample=seed)["items"] for seed in (42, 42, 43))
    assert first == again != second
    assert len({item["key"] for item in first}) == len(first) == 100
    assert first == sorted(first, key=lambda item: item["key"])
    chosen = complete(pages, sample=7, type="1")
    assert len(chosen["items"]) == 100 and chosen["total"] == 500
    assert {item["name"][-1] for item in chosen["items"]} == {"1"}


def test_the_damage_filter_shows_files_found_by_the_scrub(tmp_path: Path, serve: Serve) -> None:
    path = packed(tmp_path / "a.ffr", FILES)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"else", b"elsE").replace(b"same", b"samE", 1))
    pages = serve(path)
    assert "Nothing has been checked yet" in pages.get("/", only="damaged").text
    pages.get("/health", scrub=1)
    while len(found := keys(pages, only="damaged")) < 2:
        assert pages.get("/", only="damaged").status == 200
    assert found == ["a/1.PNG", "a.txt"]
    assert keys(pages, only="damaged", type="txt") == ["a.txt"]


def test_only_a_few_results_are_cached(pack: Path) -> None:
    with closing(FileCollection(PackTree(pack))) as collection:
        choices = Choices(collection)
        first = choices.find(Query(name="0"))
        assert choices.find(Query(name="0")) is first
        for number in range(8):
            choices.find(Query(name=str(number + 1)))
        assert choices.find(Query(name="8")) is choices.find(Query(name="8"))
        assert choices.find(Query(name="0")) is not first
        choices.close()


def test_a_new_query_does_not_wait_for_the_end_of_an_old_one(
    pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass notices that it is not needed any more when a read ends, which may take long."""
    goes_on = threading.Event()
    monkeypatch.setattr(Choice, "_find", lambda *_: goes_on.wait(60))
    with closing(FileCollection(PackTree(pack))) as collection:
        choices = Choices(collection)
        found = [choices.find(Query(name=str(number))) for number in range(10)]
        assert all(one.job.progress().is_running for one in found)
        goes_on.set()
        choices.close()
        assert not any(one.job.progress().is_running for one in found)


@pytest.fixture
def examples(tmp_path: Path, serve: Serve) -> Pages:
    records: list[dict[str, Any]] = [
        {"label": 3, "text": "cat", "box": [0.1, 0.9]},
        {"label": [1, 2], "text": b""},
        {"label": 3, "text": "cat", "box": [0.1, 0.9]},
        {"box": []},
        {"context": {"label": 4}, "feature_lists": {"words": ["a", "b", [7]]}},
    ]
    return serve(write(tmp_path / "a.tfrecord", *records, b"\xff" * 2000))


@pytest.mark.parametrize(
    "parameters, expected",
    [
        ({"where": "label==3"}, "02"),
        ({"where": "label > 2"}, "024"),
        ({"where": "label!=3"}, "14"),
        ({"where": "label<=1.5"}, "1"),
        ({"where": "box==0.1 and text=='cat'"}, "02"),
        ({"where": "missing:text"}, "34"),
        ({"where": "has:words"}, "4"),
        ({"where": "words==b"}, "4"),
        ({"where": "words>b"}, ""),
        ({"where": "label==cat"}, ""),
        ({"only": "duplicates"}, "02"),
        ({"only": "duplicates", "where": "label<3"}, ""),
        ({"size_min": "1K"}, "5"),
        ({"where": "label==3", "sample": "1"}, "02"),
    ],
    ids=str,
)
def test_examples(examples: Pages, parameters: dict[str, object], expected: str) -> None:
    assert "".join(keys(examples, **parameters)) == expected


def test_examples_by_size(examples: Pages) -> None:
    sizes = [item["size"] for item in complete(examples, sort="size")["items"]]
    assert sizes == sorted(sizes) and sizes[-1] == 2000
    assert keys(examples, sort="-size")[0] == "5"
    assert examples.get("/paths", where="label==3").body == b"0\n2\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('name=="salt and pepper"', 1),
        ("name == 'salt and pepper' and n>1 and name!=\"x and y\"", 3),
        ("n==5\" and name==it's and has:a", 3),
    ],
)
def test_conditions_are_split_only_outside_quotes(text: str, count: int) -> None:
    message = from_dict({"context": {"name": b"salt and pepper", "n": 2}, "feature_lists": {}})
    conditions = parse_conditions(text)
    assert len(conditions) == count
    assert isinstance(message, SequenceExample)
    assert all(meets(message) for meets in conditions) == ("salt" in text)


def test_records_that_cannot_be_read_are_counted(tmp_path: Path, serve: Serve) -> None:
    file = write(tmp_path / "a.tfrecord", *({"label": label} for label in range(3)))
    flip_record(file, 2)
    found = complete(serve(file), where="label>=0")
    assert (found["total"], found["skipped"]) == (2, 1)


def test_malformed_conditions_are_refused() -> None:
    for text in ("", "label", "missing:", "==3", "label==", "label=3"):
        with pytest.raises(OptionError, match="is not a condition"):
            parse_conditions(text)
    (condition,) = parse_conditions("label == 4611686018427387905")  # no float has this value
    near = from_dict({"context": {"label": 4611686018427387904}, "feature_lists": {}})
    assert isinstance(near, SequenceExample) and not condition(near)
