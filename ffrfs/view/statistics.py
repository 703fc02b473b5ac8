"""Statistics: of Examples a row for each feature, as TFDV and Facets show them; of packs their
sizes, types and folders.

They are counted once, in the background, when the page is first asked for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ffrfs.view.collection import Collection, ExampleCollection, FileCollection
from ffrfs.view.counting import count
from ffrfs.view.feature_rows import SORTS, Scale, draw, feature_rows, ordered
from ffrfs.view.folder_sizes import shown, survey
from ffrfs.view.job import Job
from ffrfs.view.page import collection_of, onward, page, whole_number

if TYPE_CHECKING:
    from ffrfs.schema.messages import Proto

_ROW_COUNT = 100


def statistics_job(collection: Collection) -> Job[Any]:
    """Return the job, not begun, that counts a data set."""
    if isinstance(collection, ExampleCollection):
        work = partial(count, collection.reader.paths, collection.name)
        return Job[Any](work, collection.count, "Examples")
    assert isinstance(collection, FileCollection)
    return Job[Any](partial(survey, tree := collection.tree), tree.volume.file_count, "files")


def statistics(request: Request) -> Response:
    jobs: list[Job[Any]] = request.app.state.statistics
    is_again = "again" in request.query_params
    for job in jobs:
        if is_again or not job.has_begun:
            job.start()
    if is_again:
        return onward(request, "again")
    values: dict[str, Any] = {
        "jobs": [job.progress() for job in jobs],
        "sets": [one.collection.name for one in request.app.state.sets],
        "kind": None,
    }
    results: list[Any] = [job.result for job in jobs]
    if None not in results:
        values["kind"] = kind = collection_of(request).kind
        if kind == "files":
            values["packs"] = [shown(result) for result in results]
        else:
            values |= _of_examples(request, results)
    return page(request, "statistics.html", values)


def _of_examples(request: Request, results: list[Any]) -> dict[str, Any]:
    """Return the page's values for Examples; `results`: of one data set, or two."""
    from ffrfs.schema.feature_view import dataset_of

    given = request.query_params
    statistics = [result.statistics for result in results]
    sort = given.get("sort", "order")
    sort = sort if sort in SORTS else "order"
    state = request.app.state
    if not hasattr(state, "feature_rows"):  # the statistics do not change any more
        state.anomalies = _anomalies(state, statistics)
        state.feature_rows = feature_rows(statistics)
    rows = ordered(state.feature_rows, sort)
    first = whole_number(request, "at", 0, max(len(rows) - 1, 0))
    scale: Scale = "log" if given.get("scale") == "log" else "linear"
    flags = given.get("as") == "percent", given.get("chart") == "quantiles"
    return {
        "examples": [dataset_of(one).num_examples for one in statistics],
        "skipped": [result.skipped_count for result in results],
        "features": [
            replace(row, chart=draw(messages, scale, *flags))
            for row, messages in rows[first : first + _ROW_COUNT]
        ],
        "feature_count": len(rows),
        "first": first,
        "sort": sort,
        "anomalies": state.anomalies,
    }


def _anomalies(state: State, statistics: list[Proto]) -> list[dict[str, Any]]:
    """Return the deviations from the given schema, and of the second set from the first."""
    from ffrfs.schema import infer_schema, validate_statistics
    from ffrfs.schema.tables import anomaly_rows

    found = []
    pairs = [(number, state.schema, "the schema") for number in range(len(statistics))]
    if state.schema is None:
        schema = infer_schema(statistics[0])
        pairs = [(1, schema, "the first data set")] if len(statistics) > 1 else []
    for number, schema, of in pairs:
        rows = anomaly_rows(validate_statistics(statistics[number], schema))[1:]
        name = state.sets[number].collection.name
        found.append({"set": name, "of": of, "rows": rows})
    return found


ROUTES = [Route("/statistics", statistics)]
